"""The allow-list of system calls: what it holds, word for word, and what it must never hold."""

import json

import pytest

from sandbox_service.sandboxes.seccomp import seccomp_profile

PROFILE = json.loads(seccomp_profile())
ALLOW = [rule for rule in PROFILE["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW"]
UNCONDITIONAL = {name for rule in ALLOW if not rule.get("args") for name in rule["names"]}
CONDITIONAL = {name for rule in ALLOW if rule.get("args") for name in rule["names"]}

ALLOWED = """
accept accept4 access alarm arch_prctl bind brk capget capset chdir chmod chown clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1
epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat
faccessat2 fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync
fgetxattr flistxattr flock fork fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv
futex_wake futimesat get_mempolicy get_robust_list getcpu getcwd getdents getdents64 getegid geteuid getgid
getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid
getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr inotify_add_watch
inotify_init inotify_init1 inotify_rm_watch ioctl ioprio_get ioprio_set kill
landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat
listen listxattr llistxattr lseek lstat madvise membarrier memfd_create mkdir mkdirat mlock mlock2 mlockall
mmap mprotect mremap msync munlock munlockall munmap nanosleep newfstatat open openat openat2 pause
pidfd_open pidfd_send_signal pipe pipe2 poll ppoll prctl pread64 preadv preadv2 prlimit64 pselect6 pwrite64
pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg rename renameat
renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity
sched_setattr sched_setparam sched_setscheduler sched_yield select sendfile sendmmsg sendmsg sendto
set_robust_list set_tid_address setgid setgroups setitimer setpgid setpriority setregid setresgid setresuid
setreuid setrlimit setsid setsockopt setuid shutdown sigaltstack signalfd signalfd4 stat statfs statx
symlink symlinkat sync_file_range sysinfo tgkill time timer_create timer_delete timer_getoverrun
timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname
unlink unlinkat utime utimensat utimes vfork wait4 waitid write writev
"""

FORBIDDEN = """
_sysctl acct add_key adjtimex bpf chroot clock_adjtime clock_settime create_module delete_module fanotify_init
finit_module fsconfig fsmount fsopen fspick get_kernel_syms init_module io_destroy io_getevents io_setup
io_submit ioperm iopl kcmp kexec_file_load kexec_load keyctl landlock_add_rule lookup_dcookie
map_shadow_stack mbind memfd_secret migrate_pages mincore modify_ldt mount mount_setattr move_mount move_pages
mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd name_to_handle_at
nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise
process_vm_readv process_vm_writev ptrace query_module quotactl quotactl_fd reboot remap_file_pages
removexattr request_key seccomp semctl semget semop semtimedop set_mempolicy setdomainname sethostname setns
setfsgid setfsuid settimeofday setxattr shmat shmctl shmdt shmget splice statmount stime swapoff swapon sync
syncfs sysfs syslog tee umount umount2 unshare uselib userfaultfd ustat vhangup vm86 vmsplice
"""


def rules_for(name):
    return [rule for rule in ALLOW if name in rule["names"]]


def test_the_allowed_set_is_exactly_this():
    assert set(ALLOWED.split()) == UNCONDITIONAL


def test_these_are_allowed_under_conditions_only():
    assert {"clone", "mknod", "mknodat", "personality", "socket", "socketpair"} == CONDITIONAL
    assert not CONDITIONAL & UNCONDITIONAL


@pytest.mark.parametrize("name", FORBIDDEN.split())
def test_is_not_allowed(name):
    assert not rules_for(name)


def test_what_is_not_named_is_refused():
    assert PROFILE["defaultAction"] == "SCMP_ACT_ERRNO"
    assert PROFILE["defaultErrnoRet"] == 1


def test_what_libraries_can_do_without_does_not_exist():
    (missing,) = [rule for rule in PROFILE["syscalls"] if rule["action"] == "SCMP_ACT_ERRNO"]
    assert missing["errnoRet"] == 38
    assert set(missing["names"]) == {"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"}


def test_both_architectures_are_there_without_their_32_bit_relatives():
    assert PROFILE["archMap"] == [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
    ]


def test_sockets_are_unix_tcp_and_udp():
    made = set()
    for rule in rules_for("socket"):
        values = {arg["index"]: arg for arg in rule["args"]}
        family = values[0]["value"]
        if family == 1:
            made.add((family,))
            continue
        assert (values[1]["op"], values[1]["value"]) == ("SCMP_CMP_MASKED_EQ", 0xF)
        made.add((family, values[1]["valueTwo"], values[2]["value"]))
    assert made == {
        (1,),
        (2, 1, 0), (2, 1, 6), (2, 2, 0), (2, 2, 17),
        (10, 1, 0), (10, 1, 6), (10, 2, 0), (10, 2, 17),
    }  # fmt: skip


def test_socket_pairs_are_unix():
    (rule,) = rules_for("socketpair")
    assert rule["args"] == [{"index": 0, "value": 1, "valueTwo": 0, "op": "SCMP_CMP_EQ"}]


def test_clone_makes_no_namespace():
    (rule,) = rules_for("clone")
    new_namespaces = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
    assert rule["args"] == [{"index": 0, "value": new_namespaces, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]


def test_mknod_makes_named_pipes():
    for name, index in (("mknod", 1), ("mknodat", 2)):
        (rule,) = rules_for(name)
        expected = {"index": index, "value": 0o170000, "valueTwo": 0o010000, "op": "SCMP_CMP_MASKED_EQ"}
        assert rule["args"] == [expected]
