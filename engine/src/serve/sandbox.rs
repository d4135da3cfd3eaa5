//! Permissions of a session's process: it may compute in its memory, and read and write files. An uploaded kernel is
//! machine code, so the operating system keeps it from starting programs and processes and from opening connections.

use std::io::{Error, Result};

/// Maximum number of open files.
const MOST_FILES: u64 = 256;
/// Maximum bytes of a file: a library with the code of a large model.
const MOST_FILE_BYTES: u64 = 1 << 30;

/// Bounds this process for good.
///
/// # Errors
/// Fails if the system refuses a bound.
pub(super) fn enter(memory_mib: u64) -> Result<()> {
    // SAFETY: plain system calls with constant arguments.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
    }
    crate::device::limit_private_memory(memory_mib.saturating_add(private_mib()))?;
    limit(libc::RLIMIT_NOFILE, MOST_FILES)?;
    limit(libc::RLIMIT_FSIZE, MOST_FILE_BYTES)?;
    limit(libc::RLIMIT_CORE, 0)?;
    match can_filter() {
        true => forbid(),
        false => Ok(()),
    }
}

/// Private memory of this process so far, MiB. Memory that device runtimes reserve does not count for the client.
fn private_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmData:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

/// Whether this system filters calls: a kernel may be built without, and emulators have none.
pub(super) fn can_filter() -> bool {
    // SAFETY: a plain system call with constant arguments.
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
        && unsafe { libc::prctl(libc::PR_GET_SECCOMP) } >= 0
}

fn limit(what: libc::__rlimit_resource_t, most: u64) -> Result<()> {
    let bound = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: `bound` is a valid structure that lives through the call.
    match unsafe { libc::setrlimit(what, &bound) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

/// Numbers by which filters know an architecture (`AUDIT_ARCH_*` of linux/audit.h).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// System calls that a kernel does not need.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_kill,
    libc::SYS_mount,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_io_uring_setup,
    libc::SYS_bpf,
];

/// Makes forbidden calls, and a clone that is not a thread, fail with EPERM, by a seccomp filter.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn forbid() -> Result<()> {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W};
    /// Offsets in the filter's view of a call (`struct seccomp_data`).
    const NUMBER: u32 = 0;
    const ARCH: u32 = 4;
    const FIRST_ARGUMENT: u32 = 16;
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let jump = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: (BPF_JMP | code | BPF_K) as u16,
        jt,
        jf,
        k,
    };
    let load = |place| statement(BPF_LD | BPF_W | BPF_ABS, place);
    let answer = |action: u32| statement(BPF_RET | BPF_K, action);
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut program = vec![
        load(ARCH),
        jump(BPF_JEQ, ARCHITECTURE, 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
    ];
    for call in FORBIDDEN {
        program.push(jump(BPF_JEQ, *call as u32, 0, 1));
        program.push(answer(refused));
    }
    // The C library falls back to clone, whose flags a filter can read.
    program.push(jump(BPF_JEQ, libc::SYS_clone3 as u32, 0, 1));
    program.push(answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    program.push(jump(BPF_JEQ, libc::SYS_clone as u32, 0, 3));
    program.push(load(FIRST_ARGUMENT));
    program.push(jump(BPF_JSET, libc::CLONE_THREAD as u32, 1, 0));
    program.push(answer(refused));
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `filter` points to `program`, both of which live through the calls.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
    };
    match set {
        true => Ok(()),
        false => Err(Error::last_os_error()),
    }
}

/// On other architectures the limits above are all there is.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn forbid() -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_may_be_started_and_programs_and_connections_not() {
        // In a process of its own: a filter cannot be taken back.
        // SAFETY: the child calls nothing but what is tested, then ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut code = 0;
            if enter(4096).is_err() {
                code = 1;
            } else if std::thread::spawn(|| 7).join().ok() != Some(7) {
                code = 2;
            } else if std::process::Command::new("true").status().is_ok() {
                code = 3;
            } else if std::net::TcpListener::bind("127.0.0.1:0").is_ok() {
                code = 4;
            // SAFETY: a fork that is refused returns here.
            } else if unsafe { libc::fork() } >= 0 {
                code = 5;
            }
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 0);
    }
}
