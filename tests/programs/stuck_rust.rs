// Two threads that wait for each other with std::sync::Mutex: a futex that does not say who holds it. Both locks were
// contended before, so somebody acquired each after a wait.
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

#[inline(never)]
fn transfer(audit: &Mutex<u64>) -> u64 {
    *audit.lock().unwrap()
}

#[inline(never)]
fn reconcile(accounts: &Mutex<u64>) -> u64 {
    *accounts.lock().unwrap()
}

fn waits(thread: &str) -> bool {
    // 202: futex
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let call = std::fs::read_to_string(path.join("syscall")).unwrap_or_default();
        if name.trim() == thread && call.starts_with("202 ") {
            return true;
        }
    }
    false
}

fn until_it_waits(thread: &str) {
    while !waits(thread) {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(2));
}

fn main() {
    let accounts = Arc::new(Mutex::new(1u64));
    let audit = Arc::new(Mutex::new(2u64));
    let both = Arc::new(Barrier::new(2));
    // main has both, so that each thread gets its first lock after a wait for it.
    let first = accounts.lock().unwrap();
    let second = audit.lock().unwrap();
    let (a, b, c) = (accounts.clone(), audit.clone(), both.clone());
    let _one = thread::Builder::new().name("transfers".into()).spawn(move || {
        let _held = a.lock().unwrap();
        c.wait();
        transfer(&b)
    });
    let (a, b, c) = (accounts.clone(), audit.clone(), both.clone());
    let _two = thread::Builder::new().name("audits".into()).spawn(move || {
        let _held = b.lock().unwrap();
        c.wait();
        reconcile(&a)
    });
    until_it_waits("transfers");
    until_it_waits("audits");
    drop(first);
    drop(second);
    thread::sleep(Duration::from_millis(20));
    until_it_waits("transfers");
    until_it_waits("audits");
    println!("ready");
    loop {
        thread::park();
    }
}
