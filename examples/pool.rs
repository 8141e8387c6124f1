// holdfast.h in Rust: a weak symbol that leads to a table of functions; null without Holdfast.
//
//     rustc examples/pool.rs -o pool_rust
//     holdfast run -- ./pool_rust
use std::arch::{asm, global_asm};
use std::os::raw::c_void;

#[repr(C)]
struct Functions {
    bytes: usize,
    snapshot: extern "C" fn(),
    alloc: extern "C" fn(*const c_void, usize),
    free: extern "C" fn(*const c_void),
    // lock_wait, lock_wait_end, lock_release: see holdfast.h
}

global_asm!(".weak holdfast_v1");

#[inline(always)]
fn holdfast() -> Option<&'static Functions> {
    let here: *const Functions;
    // Filled in by the dynamic linker: null if the program was started without Holdfast.
    #[cfg(target_arch = "x86_64")]
    unsafe { asm!("mov {}, qword ptr [rip + holdfast_v1@GOTPCREL]", out(reg) here, options(pure, readonly, nostack, preserves_flags)) };
    #[cfg(target_arch = "aarch64")]
    unsafe { asm!("adrp {0}, :got:holdfast_v1", "ldr {0}, [{0}, :got_lo12:holdfast_v1]", out(reg) here, options(pure, readonly, nostack, preserves_flags)) };
    unsafe { here.as_ref() }
}

struct Arena {
    memory: Vec<u8>,
    used: usize,
}

impl Arena {
    fn take(&mut self, bytes: usize) -> *mut u8 {
        let at = unsafe { self.memory.as_mut_ptr().add(self.used) };
        self.used += bytes;
        if let Some(holdfast) = holdfast() {
            (holdfast.alloc)(at as *const c_void, bytes);
        }
        at
    }
    fn give_back(&mut self, at: *mut u8) {
        if let Some(holdfast) = holdfast() {
            (holdfast.free)(at as *const c_void);
        }
    }
}

#[inline(never)]
#[no_mangle]
fn parse_document(arena: &mut Arena) -> *mut u8 {
    arena.take(2000)
}

fn main() {
    let mut arena = Arena { memory: Vec::with_capacity(1 << 20), used: 0 };
    let documents: Vec<*mut u8> = (0..100).map(|_| parse_document(&mut arena)).collect();
    for document in &documents[..60] {
        arena.give_back(*document);
    }
    if let Some(holdfast) = holdfast() {
        (holdfast.snapshot)();
    }
    println!("expect parse_document 100 200000 40 80000");
}
