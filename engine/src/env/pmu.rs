//! Whether hardware counters can be read. The test opens one: CPU cycles of this process in user mode, the smallest
//! request of `perf_event_open(2)`.

use opdata::contract::Pmu;

/// `PERF_ATTR_SIZE_VER0`: the first version of the attributes, which every kernel takes.
const ATTRIBUTES_BYTES: usize = 64;

/// The attributes of `perf_event_open` up to the first version's size, field by field as in
/// `linux/perf_event.h`.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

const _: () = assert!(std::mem::size_of::<Attributes>() == ATTRIBUTES_BYTES);

/// Bits of `flags`: start disabled, and count neither the kernel nor the hypervisor.
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;

/// Opens a counter and closes it again.
pub(super) fn probe() -> Pmu {
    let attributes = Attributes {
        kind: 0, // PERF_TYPE_HARDWARE
        size: ATTRIBUTES_BYTES as u32,
        config: 0, // PERF_COUNT_HW_CPU_CYCLES
        sample_period: 0,
        sample_type: 0,
        read_format: 0,
        flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV,
        wakeup_events: 0,
        bp_type: 0,
        bp_addr: 0,
    };
    let (this_process, any_cpu, no_group, no_flags) = (0, -1, -1, 0u64);
    // SAFETY: the attributes have the size they name and outlive the call, which only reads them;
    // the other arguments are plain numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_process,
            any_cpu,
            no_group,
            no_flags,
        )
    };
    if fd >= 0 {
        // SAFETY: the descriptor was returned just now and is used nowhere else.
        unsafe { libc::close(fd as libc::c_int) };
        return Pmu::Available;
    }
    of_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

fn of_error(errno: i32) -> Pmu {
    match errno {
        libc::EACCES | libc::EPERM => Pmu::Refused,
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENOSYS | libc::ENXIO => Pmu::Absent,
        errno => Pmu::Unknown { errno },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_had_without_side_effects() {
        let open = || {
            std::fs::read_dir("/proc/self/fd")
                .map(|fds| fds.count())
                .unwrap_or(0)
        };
        let before = open();
        let first = probe();
        assert_eq!(first, probe());
        // Other tests of this process open files too; a leak of every probe would still show.
        for _ in 0..200 {
            probe();
        }
        assert!(open() < before + 150);
    }

    #[test]
    fn errors_are_distinguished() {
        assert_eq!(of_error(libc::EACCES), Pmu::Refused);
        assert_eq!(of_error(libc::ENOENT), Pmu::Absent);
        assert_eq!(
            of_error(libc::EINVAL),
            Pmu::Unknown {
                errno: libc::EINVAL
            }
        );
    }
}
