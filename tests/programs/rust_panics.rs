// Panics that are caught, in the thread and through the join of another one.
use std::panic;
use std::thread;

#[inline(never)]
#[no_mangle]
pub extern "C-unwind" fn gives_up(i: u32) {
    if i < 1000 {
        panic!("no");
    }
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    for i in 0..6 {
        assert!(panic::catch_unwind(|| gives_up(i)).is_err());
    }
    assert!(thread::spawn(|| gives_up(7)).join().is_err());
    println!("panics gives_up 7");
}
