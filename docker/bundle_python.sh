#!/bin/sh
# Makes this box's interpreter independent of its image: the program, its standard library, the shared libraries of
# both and the loader go to a folder, and /opt/sandbox/python3 becomes a script that starts them. Images with
# another C library, or without Python, can then run the runner.
# Usage: bundle_python.sh FOLDER
set -eu
folder=$1
python=$(readlink -f /opt/sandbox/python3)
library=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
name=$(basename "$library")

mkdir -p "$folder/bin" "$folder/lib" "$folder/shared"
cp "$python" "$folder/bin/python3"
cp -r "$library" "$folder/lib/$name"
for part in test idlelib lib2to3 ensurepip tkinter turtledemo site-packages dist-packages sitecustomize.py; do
    rm -rf "${folder:?}/lib/$name/$part"
done
rm -rf "$folder/lib/$name"/config-*
for file in "$python" "$folder/lib/$name"/lib-dynload/*.so; do
    ldd "$file"
done | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r file; do
    cp -L "$file" "$folder/shared/"
done
cp -L "$(ldd "$python" | awk '$1 ~ /^\/.*ld-/ { print $1 }')" "$folder/loader"

# The libraries are named on the command line, since a variable would reach the agent's programs.
rm /opt/sandbox/python3
printf '#!/bin/sh\nexec %s/loader --inhibit-cache --library-path %s/shared %s/bin/python3 "$@"\n' \
    "$folder" "$folder" "$folder" > /opt/sandbox/python3
chmod 755 /opt/sandbox/python3 "$folder/loader"
/opt/sandbox/python3 -I -c 'import hashlib, json, select, socket, ssl, subprocess, zlib'
