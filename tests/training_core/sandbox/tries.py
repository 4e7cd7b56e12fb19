# ruff: noqa: E501
"""Programs that try to leave the sandbox, to reach other processes, or to use up the machine. One that succeeds prints GOT."""

LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
"""Each system call by its number on x86_64: the C library may refuse, or not know, what the kernel permits."""
_CALL = LIBC + (
    "def call(*words):\n    found = libc.syscall(*words)\n    if found >= 0: print('GOT', words, found)\n"
    "buffer = ctypes.create_string_buffer(4096)\n"
)
_IN_USE = "1, 2, 3, 4, 5, 6, 7, 8, 64, 4096"

FILES = {
    "passwd": "print('GOT', open('/etc/passwd').read())",
    "shadow": "print('GOT', open('/etc/shadow').read())",
    "home_folders": "import os\nprint('GOT', os.listdir('/home'))",
    "run_and_var": "import os\nprint('GOT', os.listdir('/run'), os.listdir('/var'))",
    "proc": "import os\nprint('GOT', os.listdir('/proc'))",
    "proc_of_itself": "print('GOT', open('/proc/self/maps').read())",
    "sys": "import os\nprint('GOT', os.listdir('/sys'))",
    "descriptor_folder": "import os\nprint('GOT', os.listdir('/dev/fd'))",
    "block_device": "import os, stat\nos.mknod('/tmp/d', 0o600 | stat.S_IFBLK, os.makedev(8, 0))\nprint('GOT')",
    "devices": "import os\nprint('GOT' if {'kvm', 'mem', 'fuse', 'sda', 'vda', 'kmsg'} & set(os.listdir('/dev')) else '')",
    "terminal": "open('/dev/tty', 'w').write('x')\nprint('GOT')",
    "type_into_terminal": "import fcntl, os, termios\nfcntl.ioctl(os.open('/dev/ptmx', os.O_RDWR), termios.TIOCSTI, b'x')\nprint('GOT')",
    "root": "open('/evil', 'w')\nprint('GOT')",
    "harness": "open('/harness.py', 'w')\nprint('GOT')",
    "harness_mode": "import os\nos.chmod('/harness.py', 0o777)\nprint('GOT')",
    "shared_memory_folder": "open('/dev/shm/evil', 'w')\nprint('GOT')",
    "bytecode_of_the_library": (
        "import json, os\nplace = os.path.join(os.path.dirname(json.__file__), '__pycache__')\n"
        "open(os.path.join(place, 'evil.pyc'), 'w')\nprint('GOT')"
    ),
    "times_of_the_library": "import json, os\nos.utime(json.__file__, (1, 1))\nprint('GOT')",
    "owner_of_the_library": "import json, os\nos.chown(json.__file__, 65534, 65534)\nprint('GOT')",
    "link_out": "import os\nos.symlink('/etc/hostname', '/tmp/l')\nprint('GOT', open('/tmp/l').read())",
    "up_and_out": "print('GOT', open('/tmp/../../../../etc/hosts').read())",
    "hard_link_out": "import json, os\nos.link(json.__file__, '/tmp/l')\nprint('GOT')",
    "under_the_mount": LIBC + "if libc.umount2(b'/tmp', 2) == 0: print('GOT')",
    "file_handles": _CALL + "call(303, -100, b'/', buffer, buffer, 0)\ncall(304, 3, buffer, 0)",
}
"""Files and devices of the outside."""

MOUNTS = {
    "mount": LIBC + "if libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0: print('GOT')",
    "remount_writable": LIBC + "if libc.mount(b'none', b'/usr', None, 32 | 4096, None) == 0: print('GOT')",
    "new_mount_calls": _CALL
    + "call(430, b'tmpfs', 0)\ncall(428, -100, b'/', 1)\ncall(429, -100, b'/', -100, b'/tmp', 0)\ncall(442, -100, b'/', 0, buffer, 32)",
    "read_mounts": _CALL + "call(457, buffer, buffer, 512, 0)\ncall(458, buffer, buffer, 64, 0)",
    "change_root": _CALL + "call(161, b'/tmp')\ncall(155, b'/', b'/tmp')",
    "namespaces": _CALL
    + "for kind in (0x10000000, 0x20000000, 0x40000000, 0x20000, 0x8000000, 0x4000000, 0x2000000, 0x80): call(272, kind)",
    "enter_namespace": _CALL + "for n in range(64): call(308, n, 0)",
    "host_name": "import socket\nsocket.sethostname('x')\nprint('GOT')",
    "clock": "import time\ntime.clock_settime(time.CLOCK_REALTIME, 1.0)\nprint('GOT')",
    "kernel_log": _CALL + "call(103, 3, buffer, 4096)\ncall(103, 10, 0, 0)",
    "kernel": _CALL
    + "call(169, 0xfee1dead, 672274793, 0)\ncall(175, buffer, 8, b'')\ncall(246, 0, 0, 0, 0)\ncall(167, b'/tmp/x', 0)\ncall(163, b'/tmp/x')",
    "flush_all_disks": _CALL + "call(162)\ncall(306, os.open('/usr', os.O_RDONLY))",
}
"""Mounts, namespaces and the kernel itself."""

PROCESSES = {
    "sees_others": "import os\nfor n in range(2, 500):\n    try: print('GOT', n, os.getpgid(n))\n    except OSError: pass",
    "priorities_of_others": "import os\nfor n in range(2, 500):\n    try: print('GOT', n, os.getpriority(os.PRIO_PROCESS, n))\n    except OSError: pass",
    "kill": f"import os\nfor n in (0, -1, os.getppid(), {_IN_USE}):\n    try: os.kill(n, 0); print('GOT', n)\n    except OSError: pass",
    "kill_group": "import os\nos.killpg(0, 19)\nprint('GOT')",
    "kill_by_number": _CALL
    + "call(62, 0, 0)\ncall(62, -1, 0)\ncall(200, 1, 0)\ncall(234, 1, 1, 0)\ncall(129, 1, 18, buffer)\ncall(297, 1, 1, 18, buffer)",
    "process_descriptors": _CALL
    + f"for n in ({_IN_USE}): call(434, n, 0)\ncall(424, 3, 9, 0, 0)\ncall(438, 3, 0, 0)",
    "memory_of_others": _CALL
    + f"for n in (os.getppid(), {_IN_USE}): call(310, n, buffer, 1, buffer, 1, 0); call(311, n, buffer, 1, buffer, 1, 0)",
    "trace": _CALL
    + f"for n in (os.getppid(), {_IN_USE}):\n    for request in (0, 16, 0x4206): call(101, request, n, 0, 0)",
    "compare": _CALL + f"for n in ({_IN_USE}): call(312, os.getpid(), n, 0, 1, 1)",
    "limits_of_others": "import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))\nprint('GOT')",
    "limits_with_a_high_half": _CALL + "for n in (0, 1, 2): call(302, (1 << 32) + n, 0, buffer, buffer)",
    "raise_own_limits": "import resource as r\nfor name in (r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_NOFILE):\n    try: r.setrlimit(name, (1 << 40, 1 << 40)); print('GOT')\n    except (OSError, ValueError): pass",
    "signals_by_pipe": "import fcntl, os\nr, w = os.pipe()\nfor command in (8, 10, 15, 1024, 1026):\n    try: fcntl.fcntl(r, command, 1); print('GOT', command)\n    except OSError: pass",
    "signals_by_pipe_with_a_high_half": _CALL
    + "r, w = os.pipe()\nfor command in (8, 10, 15, 1024): call(72, r, ctypes.c_uint64((1 << 32) + command), 1)",
    "signals_by_ioctl": "import fcntl, os, struct\nr, w = os.pipe()\nfor command in (0x8901, 0x8902, 0x5410, 0x5452):\n    try: fcntl.ioctl(r, command, struct.pack('i', 1)); print('GOT', command)\n    except OSError: pass",
    "lease_on_the_library": "import fcntl, json\nfcntl.fcntl(open(json.__file__), 1024, fcntl.F_RDLCK)\nprint('GOT')",
    "watch_the_library": _CALL + "call(253)\ncall(294, 0)\ncall(300, 0, 0)",
    "lock_the_library": "import fcntl, json\nfcntl.flock(open(json.__file__), fcntl.LOCK_EX | fcntl.LOCK_NB)\nprint('GOT')",
    "scheduling": "import os\nfor act in (lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)), lambda: os.sched_setaffinity(0, {0}), lambda: os.nice(5), lambda: os.setpriority(os.PRIO_PGRP, 0, 19), lambda: os.setpriority(os.PRIO_USER, 0, 19)):\n    try: act(); print('GOT')\n    except OSError: pass",
    "scheduling_by_number": _CALL
    + "call(142, 0, buffer)\ncall(144, 0, 5, buffer)\ncall(314, 0, buffer, 0)\ncall(251, 1, 0, 0)\ncall(203, 0, 8, b'\\1' * 8)",
    "process_settings": _CALL
    + "for option in (1, 3, 4, 8, 22, 23, 24, 28, 29, 35, 36, 38, 47, 62, 0x59616d61): call(157, option, 1, 0, 0, 0)",
    "leave_session": "import os\nfor act in (os.setsid, lambda: os.setpgid(0, 0)):\n    try: act(); print('GOT')\n    except OSError: pass",
    "timer_for_another_thread": _CALL
    + "import struct\nfor n in range(2, 200): call(222, 1, struct.pack('QiiiQQ', 0, 9, 4, n, 0, 0), buffer)",
    "keys": _CALL
    + "call(248, b'user', b'x', b'y', 1, -3)\ncall(249, b'user', b'x', 0, 0)\ncall(250, 1, 0)\ncall(250, 0, -3, 0)",
    "shared_memory": _CALL + "call(29, 1, 4096, 0o1666)\ncall(30, 0, 0, 0)\ncall(31, 0, 2, buffer)",
    "semaphores_and_messages": _CALL
    + "call(64, 1, 1, 0o1666)\ncall(68, 1, 0o1666)\ncall(240, b'/x', 0o102, 0o666, 0)\ncall(241, b'/x')",
    "performance_counters": _CALL + "call(298, buffer, -1, 0, -1, 0)\ncall(298, buffer, 0, -1, -1, 0)",
    "page_faults": _CALL + "call(323, 0)\ncall(323, 1)",
    "asynchronous_io": _CALL + "call(425, 8, buffer)\ncall(426, 3, 1, 0, 0, 0, 0)\ncall(206, 1, buffer)",
    "bpf": _CALL + "call(321, 0, buffer, 64)\ncall(321, 5, buffer, 64)",
    "capabilities": _CALL
    + "call(126, b'\\x22\\x05\\x08\\x20' + bytes(4), b'\\xff' * 24)\ncall(105, 0)\ncall(117, 0, 0, 0)\ncall(116, 0, buffer)",
    "compatibility_calls": _CALL + "call(0x40000000 + 41, 1, 1, 0)\ncall(0x40000000 + 57)",
    "calls_of_32_bits": LIBC
    + "import mmap\npage = mmap.mmap(-1, 4096, prot=7)\npage.write(b'\\xb8\\x02\\0\\0\\0\\xcd\\x80\\xc3')\naddress = ctypes.addressof(ctypes.c_char.from_buffer(page))\nif ctypes.CFUNCTYPE(ctypes.c_int)(address)() >= 0: print('GOT')",
}
"""Other processes, and what all processes share."""

STARTING = {
    "fork": "import os\nprint('GOT', os.fork())",
    "raw_fork": _CALL + "call(57)\ncall(58)\ncall(56, 17, 0, 0, 0, 0)",
    "thread_in_namespace": _CALL
    + "call(56, 0x10000 | 0x20000000 | 0x900, 0, 0, 0, 0)\ncall(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": _CALL + "import struct\ncall(435, struct.pack('11Q', 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)",
    "double_fork": "import os\nif os.fork() == 0:\n    os.setsid()\n    os.fork()\nprint('GOT')",
    "subprocess": "import subprocess\nprint('GOT', subprocess.run(['/usr/bin/id'], capture_output=True))",
    "shell": "import os\nprint('GOT', os.popen('id').read() or 1 / 0)",
    "execute": "import os\nos.execv('/bin/sh', ['sh', '-c', 'echo GOT'])",
    "execute_with_rights": "import os\nos.execv('/usr/bin/su', ['su', '-c', 'echo GOT'])",
    "execute_from_memory": _CALL
    + "call(319, b'x', 0)\ncall(447, 0)\ncall(322, 3, b'', buffer, buffer, 0x1000)",
    "become_root": "import os\nfor act in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):\n    try: act(); print('GOT')\n    except OSError: pass",
}
"""Processes and rights of its own."""

NETWORK = {
    "connect": "import socket\nsocket.create_connection(('127.0.0.1', PORT), 2)\nprint('GOT')",
    "datagram": "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))\nprint('GOT')",
    "unix": "import socket\nsocket.socket(socket.AF_UNIX)\nprint('GOT')",
    "abstract_name": "import socket\nfor one in socket.socketpair(type=socket.SOCK_DGRAM):\n    for act in (one.bind, one.connect):\n        try: act('\\0name'); print('GOT')\n        except OSError: pass",
    "netlink": "import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\nprint('GOT')",
    "packet": "import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nprint('GOT')",
    "kernel_crypto": "import socket\nsocket.socket(38, socket.SOCK_SEQPACKET)\nprint('GOT')",
    "virtual_machine": "import socket\nsocket.socket(40, socket.SOCK_STREAM)\nprint('GOT')",
    "park_descriptors": "import array, socket\na, b = socket.socketpair()\na.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])\nprint('GOT')",
}
"""Sockets."""

AMOUNTS = {
    "fork_bomb": "import os\nwhile True: os.fork()",
    "memory": "x = []\nwhile len(x) < 64: x.append(bytearray(1 << 24))\nprint('GOT')",
    "memory_without_reserve": "import mmap\nmmap.mmap(-1, 1 << 32, flags=0x4022)\nprint('GOT')",
    "memory_in_files_without_names": "import os\nfor _ in range(40):\n    os.write(os.memfd_create('x'), bytes(7 << 20))\nprint('GOT')",
    "disk": "n = 0\nwhile n < 64:\n    open(f'/tmp/{n}', 'wb').write(bytes(1 << 20)); n += 1\nprint('GOT')",
    "files": "import os\nfor n in range(20000): os.close(os.open(f'/tmp/{n}', 65))\nprint('GOT')",
    "descriptors": "import os\nfor n in range(100): os.dup(0)\nprint('GOT')",
    "locked_memory": LIBC
    + "if libc.mlockall(3) == 0 or libc.mlock(ctypes.create_string_buffer(1 << 20), 1 << 20) == 0: print('GOT')",
}
"""More than its share of the machine."""

ALL = {
    f"{kind}-{name}": program
    for kind, programs in {
        "files": FILES, "mounts": MOUNTS, "processes": PROCESSES, "starting": STARTING, "network": NETWORK, "amounts": AMOUNTS,
    }.items()
    for name, program in programs.items()
}  # fmt: skip
"""Name -> program."""

MEMORY = r"""
import ctypes, os, re, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
libc.sbrk.restype, libc.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_long]
environ = ctypes.c_void_p.in_dll(libc, 'environ').value
reading, writing = os.pipe()
def page(address):
    if libc.write(writing, address, 4096) != 4096: return None
    return os.read(reading, 4096)
seen, found, before = set(), set(), b''
starts = [libc.sbrk(0) - 4096, id(object()), id(sys.argv), id([]), id(sys), id(b'x' * 9999), ctypes.addressof(ctypes.create_string_buffer(9)), environ or id(None)]
for start in starts:
    for step in (-4096, 4096):
        address, misses = start & ~4095, 0
        while misses < 512 and abs(address - start) < 1 << 26:
            if address in seen: break
            seen.add(address)
            text = page(address)
            if text is None: misses += 1
            else:
                misses = 0
                for hit in re.finditer(PATTERN, text): found.add(hit.group())
            address += step
"""
"""Reads all memory near what it knows of, page by page, through a pipe: `found` holds what matches PATTERN; `seen` the pages."""

HONEST = [
    "import asyncio\nasync def main(): await asyncio.sleep(0); print('done')\nasyncio.run(main())",
    "from concurrent.futures import ThreadPoolExecutor\nprint(*ThreadPoolExecutor(4).map(str, ['done']))",
    "import shutil, tempfile\nwith tempfile.TemporaryDirectory() as d:\n    open(d + '/a', 'w').write('done')\n    print(open(shutil.copy2(d + '/a', d + '/b')).read())",
    "import sqlite3\nd = sqlite3.connect('/tmp/d')\nd.execute('create table t (x)')\nd.execute(\"insert into t values ('done')\")\nd.commit()\nprint(*d.execute('select * from t').fetchone())",
    "import random, time, uuid, secrets, decimal, datetime, selectors, queue, hashlib\ntime.sleep(0.01)\nprint('done')",
    "import signal\nsignal.signal(signal.SIGALRM, lambda *_: print('done'))\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\nsignal.pause()",
]
"""What ordinary programs use: each prints `done`."""
