//! The same work for many items, on several threads.

use std::sync::Mutex;

/// Does the work for each item on `jobs` threads; the results are in the items' order.
///
/// # Errors
/// Fails if the work fails for an item.
pub fn on_threads<T: Send, R: Send>(
    items: Vec<T>,
    jobs: usize,
    work: impl Fn(T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let queue = Mutex::new(items.into_iter().enumerate());
    let next = || queue.lock().ok()?.next();
    let share = || {
        std::iter::from_fn(next)
            .map(|(place, item)| Ok((place, work(item)?)))
            .collect::<anyhow::Result<Vec<_>>>()
    };
    let mut done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(share)).collect();
        let mut done = Vec::new();
        for thread in threads {
            let lost = |_| anyhow::anyhow!("a thread that built a part of the model panicked");
            done.extend(thread.join().map_err(lost)??);
        }
        anyhow::Ok(done)
    })?;
    done.sort_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_an_error_is_an_error() {
        let halves = |items: Vec<u32>, jobs| {
            on_threads(items, jobs, |n| {
                anyhow::ensure!(n % 2 == 0, "{n} is odd");
                Ok(n / 2)
            })
        };
        let even: Vec<u32> = (0..50).map(|n| 2 * n).collect();
        for jobs in [0, 1, 3, 80] {
            assert_eq!(halves(even.clone(), jobs).unwrap(), Vec::from_iter(0..50));
        }
        let error = halves(vec![0, 2, 5, 6], 2).unwrap_err();
        assert_eq!(error.to_string(), "5 is odd");
    }
}
