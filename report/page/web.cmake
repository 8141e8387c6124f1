# Builds the page of `holdfast html` from report/page/web/ with npm and esbuild, as one template that is linked into the
# tool. Sets HOLDFAST_WEB_TEMPLATE to its path, or to "". Sources are first copied into the build tree, because npm
# installs its packages beside them and the source tree must not change.
option(HOLDFAST_WEB "Build the HTML report's page (needs node 18 and npm)" ON)
set(HOLDFAST_WEB_TEMPLATE "")
if(NOT HOLDFAST_WEB)
  message(STATUS "HTML report: not built (HOLDFAST_WEB is OFF); `holdfast html` will say so.")
  return()
endif()
find_program(HOLDFAST_NODE NAMES node nodejs)
find_program(HOLDFAST_NPM npm)
set(node_version "")
if(HOLDFAST_NODE)
  execute_process(COMMAND "${HOLDFAST_NODE}" --version OUTPUT_VARIABLE node_version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
string(REGEX REPLACE "^v" "" node_version "${node_version}")
if(NOT HOLDFAST_NODE OR NOT HOLDFAST_NPM OR node_version VERSION_LESS 18)
  message(STATUS "HTML report: not built, it needs node 18 or newer and npm (found: node ${node_version}). "
                 "Everything else is; scripts/deps installs them. -DHOLDFAST_WEB=OFF says that it is not wanted.")
  return()
endif()
set(web_source "${CMAKE_SOURCE_DIR}/report/page/web")
set(web_build "${CMAKE_BINARY_DIR}/web")

# Fetches the packages once per lock file. At configure time, so that an unreachable registry disables the report and
# nothing else.
set(web_packages package.json package-lock.json .npmrc)
list(TRANSFORM web_packages PREPEND "${web_source}/" OUTPUT_VARIABLE web_package_files)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${web_package_files})
set(npm_omit --omit=dev)
if(HOLDFAST_TESTS)
  set(npm_omit --include=dev)
endif()
file(SHA256 "${web_source}/package-lock.json" web_stamp)
set(web_stamp "${web_build}/npm-ci${npm_omit}.${web_stamp}")
if(NOT EXISTS "${web_stamp}")
  message(STATUS "HTML report: fetching its packages (npm ci)")
  file(COPY ${web_package_files} DESTINATION "${web_build}")
  execute_process(
    COMMAND "${HOLDFAST_NPM}" ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error ${npm_omit}
    WORKING_DIRECTORY "${web_build}" RESULT_VARIABLE npm_result OUTPUT_QUIET ERROR_VARIABLE npm_error TIMEOUT 300)
  if(NOT npm_result EQUAL 0)
    string(STRIP "${npm_error}" npm_error)
    message(WARNING "HTML report: not built, npm ci failed (${npm_result}): ${npm_error}\n"
                    "Everything else is. Configure again once npm's registry can be reached.")
    return()
  endif()
  file(GLOB web_old_stamps "${web_build}/npm-ci*")  # the packages that they describe are gone
  if(web_old_stamps)
    file(REMOVE ${web_old_stamps})
  endif()
  file(TOUCH "${web_stamp}")
endif()
message(STATUS "HTML report: built with node ${node_version} (-DHOLDFAST_WEB=OFF leaves it out)")

set(HOLDFAST_WEB_TEMPLATE "${web_build}/template.html")
file(GLOB_RECURSE web_files CONFIGURE_DEPENDS RELATIVE "${web_source}" "${web_source}/src/*")
list(APPEND web_files build.mjs tsconfig.json package.json)
foreach(file ${web_files})
  list(APPEND web_inputs "${web_source}/${file}")
  list(APPEND web_copies COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${web_source}/${file}" "${web_build}/${file}")
endforeach()
add_custom_command(OUTPUT "${HOLDFAST_WEB_TEMPLATE}"
  ${web_copies}
  COMMAND "${HOLDFAST_NODE}" build.mjs template.html
  WORKING_DIRECTORY "${web_build}"
  DEPENDS ${web_inputs} "${web_stamp}"
  COMMENT "Bundling the HTML report's page" VERBATIM)
