// Locks of the crate parking_lot, one known wait in each named function; built by scripts/crates alone.
//     waits FUNCTION delay_ns
use parking_lot::{Condvar, Mutex, RwLock};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const HOLD: Duration = Duration::from_millis(100);

#[no_mangle]
#[inline(never)]
pub extern "C" fn waits_for_mutex(m: &Mutex<i32>) -> i32 {
    let guard = m.lock();
    *guard
}
#[no_mangle]
#[inline(never)]
pub extern "C" fn waits_to_read(l: &RwLock<i32>) -> i32 {
    let guard = l.read();
    *guard
}
#[no_mangle]
#[inline(never)]
pub extern "C" fn waits_to_write(l: &RwLock<i32>) -> i32 {
    let mut guard = l.write();
    *guard += 1;
    *guard
}
#[no_mangle]
#[inline(never)]
pub extern "C" fn waits_for_condvar(pair: &(Mutex<bool>, Condvar)) -> bool {
    let mut ready = pair.0.lock();
    while !*ready {
        pair.1.wait(&mut ready);
    }
    *ready
}

// Runs `wait` in a thread that comes 10 ms later than this one, and says how long it took.
fn timed<T>(name: &'static str, wait: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(10));
        let before = Instant::now();
        wait();
        println!("waits {} {}", name, before.elapsed().as_nanos());
    })
}

fn main() {
    thread::spawn(|| thread::sleep(HOLD)).join().unwrap(); // the first wait of a process makes its table
    let mutex = Arc::new(Mutex::new(7));
    let of_thread = mutex.clone();
    let held = mutex.lock();
    let waiter = timed("waits_for_mutex", move || waits_for_mutex(&of_thread));
    thread::sleep(HOLD);
    drop(held);
    waiter.join().unwrap();

    let lock = Arc::new(RwLock::new(7));
    let of_thread = lock.clone();
    let held = lock.write();
    let waiter = timed("waits_to_read", move || waits_to_read(&of_thread));
    thread::sleep(HOLD);
    drop(held);
    waiter.join().unwrap();
    let of_thread = lock.clone();
    let held = lock.read();
    let waiter = timed("waits_to_write", move || waits_to_write(&of_thread));
    thread::sleep(HOLD);
    drop(held);
    waiter.join().unwrap();

    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let of_thread = pair.clone();
    let waiter = timed("waits_for_condvar", move || waits_for_condvar(&of_thread));
    thread::sleep(HOLD);
    *pair.0.lock() = true;
    pair.1.notify_all();
    waiter.join().unwrap();
}
