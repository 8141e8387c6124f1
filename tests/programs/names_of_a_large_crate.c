// 120,000 functions with names as Rust mangles them, local as most of Rust are: 15 MB of symbols and names. 12,000 global
// ones of C.
__asm__(
    ".macro one_more\n"
    ".type _ZN4core3ptr75drop_in_place$LT$alloc..vec..Vec$LT$server..storage..Entry\\@$GT$$GT$17h9c1de5ab0f27e364E,@function\n"
    "_ZN4core3ptr75drop_in_place$LT$alloc..vec..Vec$LT$server..storage..Entry\\@$GT$$GT$17h9c1de5ab0f27e364E: ret\n.endm\n"
    ".rept 120000\none_more\n.endr\n"
    ".macro one_of_c\n.globl ossl_\\@_free\n.type ossl_\\@_free,@function\nossl_\\@_free: ret\n.endm\n"
    ".rept 12000\none_of_c\n.endr\n");
