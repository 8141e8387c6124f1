// Two workers wait for work with std::sync::Condvar, nearly all the time. Each waited once, shortly, for a Mutex that main
// held. Both waits are in one function.
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const ITEMS: u64 = 150;

struct Queue {
    items: Mutex<VecDeque<u64>>,
    filled: Condvar,
}

// Counts its calls, and returns the next piece of work.
#[inline(never)]
fn next_item(queue: &Queue, calls: &Mutex<u64>) -> u64 {
    *calls.lock().unwrap() += 1;
    let mut items = queue.items.lock().unwrap();
    loop {
        if let Some(item) = items.pop_front() {
            return item;
        }
        items = queue.filled.wait(items).unwrap();
    }
}

fn main() {
    let queue = Arc::new(Queue { items: Mutex::new(VecDeque::new()), filled: Condvar::new() });
    let calls = Arc::new(Mutex::new(0u64));
    let held = calls.lock().unwrap();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (queue, calls) = (queue.clone(), calls.clone());
            thread::spawn(move || {
                while next_item(&queue, &calls) != 0 {}
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(10));
    drop(held);
    for item in (0..ITEMS).map(|n| n + 1).chain([0, 0]) {
        thread::sleep(Duration::from_millis(3));
        queue.items.lock().unwrap().push_back(item);
        queue.filled.notify_one();
    }
    for worker in workers {
        worker.join().unwrap();
    }
    println!("{} calls", calls.lock().unwrap());
}
