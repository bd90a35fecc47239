"""A program on an emulated board, stopped and looked into over gdb's protocol."""
import socket
import subprocess
import time


class Board:
    """Stands still before the first instruction. `socket_path`: for its debugger."""

    def __init__(self, emulator, elf, line, socket_path):
        self.process = subprocess.Popen(
            [*emulator, elf, '-append', line, '-S', '-gdb', f'unix:{socket_path},server=on,wait=off'],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.socket = socket.socket(socket.AF_UNIX)
        for _ in range(500):
            try:
                self.socket.connect(socket_path)
                return
            except OSError:
                time.sleep(0.01)
        self.process.kill()
        raise RuntimeError('no debugger: ' + self.process.communicate()[1])

    def ask(self, command):
        self.socket.sendall(b'$%s#%02x' % (command.encode(), sum(command.encode()) & 255))
        answer = b''
        while b'#' not in answer or len(answer) - answer.index(b'#') < 3:
            some = self.socket.recv(65536)
            if not some:
                raise RuntimeError('the emulator ended: ' + ''.join(self.process.communicate()))
            answer += some.replace(b'+', b'')
        self.socket.sendall(b'+')
        answer = answer[answer.index(b'$') + 1:answer.index(b'#')].decode()
        assert not answer.startswith('E'), f'{command[:40]}: {answer}'
        return answer

    def read(self, begin, end):
        return b''.join(bytes.fromhex(self.ask(f'm{at:x},{min(1024, end - at):x}')) for at in range(begin, end, 1024))

    def fill(self, begin, end, byte):
        for at in range(begin, end, 1024):
            n = min(1024, end - at)
            self.ask(f'M{at:x},{n:x}:{f"{byte:02x}" * n}')

    def run_to(self, address):
        self.ask(f'Z1,{address & ~1:x},2')
        assert self.ask('c').startswith('T05')
        self.ask(f'z1,{address & ~1:x},2')

    def finish(self):
        """Exit status, standard output and standard error."""
        self.socket.sendall(b'$D#44')  # unanswered where the program ends at once
        out, err = self.process.communicate()
        return self.process.returncode, out, err
