// The page as the build made it (HOLDFAST_WEB_TEMPLATE is its path).
  .section .rodata
  .global holdfast_web_template
  .global holdfast_web_template_end
holdfast_web_template:
  .incbin HOLDFAST_WEB_TEMPLATE
holdfast_web_template_end:
  .byte 0
  .section .note.GNU-stack, "", @progbits
