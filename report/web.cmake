# The page of `holdfast html`, built by npm and esbuild from report/web/ into one template that is linked into the tool.
# Sets HOLDFAST_WEB_TEMPLATE to its path, or to nothing. The sources are copied into the build tree first: npm puts its
# packages beside them, and a source tree stays as it is.
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
message(STATUS "HTML report: built with node ${node_version} (-DHOLDFAST_WEB=OFF leaves it out)")

set(web_source "${CMAKE_CURRENT_SOURCE_DIR}/web")
set(web_build "${CMAKE_BINARY_DIR}/web")
set(HOLDFAST_WEB_TEMPLATE "${web_build}/template.html")
file(GLOB_RECURSE web_files CONFIGURE_DEPENDS RELATIVE "${web_source}" "${web_source}/src/*" "${web_source}/*.mjs" "${web_source}/*.json" "${web_source}/.npmrc")
list(FILTER web_files EXCLUDE REGEX "^node_modules/")
foreach(file ${web_files})
  list(APPEND web_inputs "${web_source}/${file}")
  list(APPEND web_copies COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${web_source}/${file}" "${web_build}/${file}")
endforeach()
set(npm_omit $<IF:$<BOOL:${HOLDFAST_TESTS}>,--include=dev,--omit=dev>)
add_custom_command(OUTPUT "${web_build}/npm-ci.stamp"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${web_build}"
  COMMAND "${CMAKE_COMMAND}" -E copy "${web_source}/package.json" "${web_source}/package-lock.json" "${web_source}/.npmrc" "${web_build}"
  COMMAND "${HOLDFAST_NPM}" ci --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error ${npm_omit}
  COMMAND "${CMAKE_COMMAND}" -E touch "${web_build}/npm-ci.stamp"
  WORKING_DIRECTORY "${web_build}"
  DEPENDS "${web_source}/package.json" "${web_source}/package-lock.json" "${web_source}/.npmrc"
  COMMENT "Fetching the packages of the HTML report (npm ci; -DHOLDFAST_WEB=OFF builds without it)" VERBATIM)
add_custom_command(OUTPUT "${HOLDFAST_WEB_TEMPLATE}"
  ${web_copies}
  COMMAND "${HOLDFAST_NODE}" build.mjs template.html
  WORKING_DIRECTORY "${web_build}"
  DEPENDS ${web_inputs} "${web_build}/npm-ci.stamp"
  COMMENT "Bundling the HTML report's page" VERBATIM)
