//! The threads of this process. A counter that is opened for one thread, or inherited by its children, misses threads
//! that were there before: TVM's pool.

/// Ids of all threads of this process, in ascending order.
pub(super) fn all() -> std::io::Result<Vec<libc::pid_t>> {
    let mut ids: Vec<libc::pid_t> = std::fs::read_dir("/proc/self/task")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    ids.sort_unstable();
    Ok(ids)
}
