#!/bin/sh
# Prepares the image of a task, in whose working directory it runs, for the runner: the content of the working
# directory and the image's variables are put aside, links lead to the folders of whoever is at work
# (harbor/box/layout.py), and no program changes its user. With TASK_HOLDS_TESTS it is the image of a verifier: its
# /app and its /tests are put aside, and another working directory stays in its place.
set -eu

refuse() {
    echo "the image cannot be used: $*" >&2
    exit 1
}

workdir=$(pwd -P)
for program in bash base64 chmod cp env find gzip ln mkdir mv rm tar test wc; do
    command -v "$program" > /dev/null || refuse "it has no $program"
done
# Copies of what the agent has would be empty, and so would be what is graded.
tar -c --exclude=none --null -T /dev/null -f /dev/null 2> /dev/null ||
    refuse "its tar has no --exclude or --null, as that of BusyBox; install GNU tar (apk add tar)"
test -x /usr/bin/env || refuse "it has no /usr/bin/env"
mkdir -p /opt/task /run/sandbox /workspace
printf '%s' "$workdir" > /opt/task/workdir
if [ "${TASK_HOLDS_TESTS:-}" ]; then
    test -f /tests/test.sh || refuse "it has no /tests/test.sh"
    case $workdir in
        /workspace* | /tmp* | /var/tmp* | /dev* | /proc* | /run* | /sys* | /opt/sandbox* | /opt/task* | /logs* | /solution*)
            refuse "its working directory is $workdir, which boxes replace" ;;
    esac
    workdir=/app
    mkdir -p $workdir
    cd /
    mv /tests /opt/task/tests
fi
case $workdir in
    / | /workspace* | /tmp* | /var/tmp* | /dev* | /proc* | /run* | /sys* | /opt | /opt/sandbox* | /opt/task*)
        refuse "its working directory is $workdir; name another one by WORKDIR or environment.workdir" ;;
    /bin | /boot | /etc | /home | /lib | /lib64 | /media | /mnt | /sbin | /srv | /usr | /usr/bin | /usr/lib | /usr/local | /var)
        refuse "its working directory is the system's $workdir; name another one by WORKDIR or environment.workdir" ;;
    /logs* | /tests* | /solution*)
        refuse "its working directory is $workdir, which the format keeps for tests and solution" ;;
    /app/*)
        refuse "its working directory $workdir is below /app, which becomes a link; make it /app itself or a folder elsewhere" ;;
esac

chmod 1777 /workspace
env -u HOME -u HOSTNAME -u PWD -u TASK_WORKDIR -u TASK_HOLDS_TESTS -0 > /opt/task/environment
cd /
mv "$workdir" /opt/task/app
# A box refuses a task whose own files are already too large to be graded.
tar -C /opt/task -cf - app | gzip -1 | base64 -w0 | wc -c > /opt/task/packed_bytes
# The agent copies these files as its own.
chmod -R a+rX /opt/task
ln -s /workspace/.task/app "$workdir"
for name in app logs tests solution; do
    if [ "/$name" != "$workdir" ]; then
        if [ -e "/$name" ] && [ -n "$(find "/$name" -type f | head -n 1)" ]; then
            refuse "it has files in /$name, and its working directory is $workdir"
        fi
        rm -rf "/$name"
        ln -s "/workspace/.task/$name" "/$name"
    fi
done
find / -xdev -type f -perm -4000 -exec chmod u-s {} +
find / -xdev -type f -perm -2000 -exec chmod g-s {} +
