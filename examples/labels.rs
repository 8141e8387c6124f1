// Labels in Rust, set for as long as a guard lives.
//
//     rustc examples/labels.rs -o labels
//     holdfast run -- ./labels; holdfast top --by tenant holdfast.labels.*/*.heap.pb.gz
use std::arch::{asm, global_asm};
use std::ffi::CString;
use std::mem::size_of;
use std::os::raw::c_char;

#[repr(C)]
struct Functions {
    bytes: usize,
    others: [usize; 6], // snapshot … lock_release: see pool.rs and holdfast.h
    label: extern "C" fn(*const c_char, *const c_char) -> u32,
    set_labels: extern "C" fn(u32) -> u32,
}

global_asm!(".weak holdfast_v1");

// None: started without Holdfast, or with a version without labels.
fn holdfast() -> Option<&'static Functions> {
    let here: *const Functions;
    #[cfg(target_arch = "x86_64")]
    unsafe { asm!("mov {}, qword ptr [rip + holdfast_v1@GOTPCREL]", out(reg) here, options(pure, readonly, nostack, preserves_flags)) };
    #[cfg(target_arch = "aarch64")]
    unsafe { asm!("adrp {0}, :got:holdfast_v1", "ldr {0}, [{0}, :got_lo12:holdfast_v1]", out(reg) here, options(pure, readonly, nostack, preserves_flags)) };
    unsafe { here.as_ref() }.filter(|it| it.bytes >= size_of::<Functions>())
}

struct Labelled(u32);

impl Labelled {
    fn new(key: &str, value: &str) -> Labelled {
        let (key, value) = (CString::new(key).unwrap(), CString::new(value).unwrap());
        Labelled(holdfast().map_or(0, |it| (it.label)(key.as_ptr(), value.as_ptr())))
    }
}

impl Drop for Labelled {
    fn drop(&mut self) {
        if let Some(it) = holdfast() {
            (it.set_labels)(self.0);
        }
    }
}

#[inline(never)]
#[no_mangle]
fn serve() -> Vec<u8> {
    Vec::with_capacity(2000)
}

fn main() {
    let mut kept = Vec::with_capacity(100);
    for i in 0..100 {
        let _labelled = Labelled::new("tenant", if i % 4 == 0 { "acme" } else { "zenith" });
        kept.push(serve());
    }
    kept.truncate(60);
    println!("expect tenant=acme 25 50000 15 30000");
    println!("expect tenant=zenith 75 150000 45 90000");
    std::mem::forget(kept); // still held when the last profile is written
}
