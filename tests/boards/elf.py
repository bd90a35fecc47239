"""What is in an ELF file of 32 bits."""
import struct


def sections(data):
    """Name: (kind, flags, offset, bytes, link)."""
    at, = struct.unpack_from('<I', data, 32)
    entry_bytes, count, names = struct.unpack_from('<HHH', data, 46)
    headers = [struct.unpack_from('<10I', data, at + i * entry_bytes) for i in range(count)]

    def name(header):
        start = headers[names][4] + header[0]
        return data[start:data.index(b'\0', start)].decode()

    return {name(h): (h[1], h[2], h[4], h[5], headers[h[6]][4]) for h in headers}


def symbols(path):
    """Name: (address, bytes)."""
    data = open(path, 'rb').read()
    found = {}
    for kind, _, at, size, names in sections(data).values():
        if kind != 2:  # SHT_SYMTAB
            continue
        for i in range(at, at + size, 16):
            name, value, length = struct.unpack_from('<III', data, i)
            start = names + name
            found[data[start:data.index(b'\0', start)].decode()] = value, length
    return found


def code_and_constants(path):
    """Bytes of both."""
    kept = [(flags, size) for _, flags, _, size, _ in sections(open(path, 'rb').read()).values() if flags & 2]  # SHF_ALLOC
    return sum(size for flags, size in kept if flags & 4), sum(size for flags, size in kept if not flags & 5)  # EXECINSTR, WRITE
