# cpack runs this between installing and packing.
execute_process(
  COMMAND "${CPACK_HOLDFAST_SOURCE}/packaging/stage" "${CPACK_GENERATOR}" "${CPACK_TEMPORARY_DIRECTORY}" "${CPACK_PACKAGING_INSTALL_PREFIX}"
    "${CPACK_HOLDFAST_STATIC}" "${CPACK_PACKAGE_VERSION}" "${CPACK_PACKAGE_CONTACT}" "${CPACK_RPM_CHANGELOG_FILE}"
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "packaging/stage failed: ${status}")
endif()
