# Every switch of the build, in one place.  Used by add_subdirectory or FetchContent, all of the
# developers' parts are off, and no third-party package is looked for.

option(VERGE_TESTS    "Build the tests"                             ${PROJECT_IS_TOP_LEVEL})
option(VERGE_MODELS   "Build the models with the tests: long to compile, the same everywhere" ${PROJECT_IS_TOP_LEVEL})
option(VERGE_EXAMPLES "Build the examples, and run them as tests"   ${PROJECT_IS_TOP_LEVEL})
option(VERGE_BENCH    "Build verge-bench and the peers that are installed" ${PROJECT_IS_TOP_LEVEL})
option(VERGE_TOOLS    "Build the verge program"                     ${PROJECT_IS_TOP_LEVEL})
option(VERGE_INSTALL  "Make the install target"                     ${PROJECT_IS_TOP_LEVEL})
option(VERGE_WERROR   "Warnings are errors (developers and CI)"     OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|aarch64|arm64)$")
    set(verge_needs_boost_context OFF)
else()
    set(verge_needs_boost_context ON)
endif()
option(VERGE_FIBER_BOOST_CONTEXT "Switch fibers by Boost.Context: for processors we have no switch for"
    ${verge_needs_boost_context})
option(VERGE_HANDLER_TRACKING "Tell of each handler of the event loop on stderr, for debugging" OFF)
set(VERGE_SANITIZE "" CACHE STRING "Sanitizers, e.g. 'address,undefined' or 'thread'")

# Flags for our own code only: never exported to users.
add_library(verge_dev_flags INTERFACE)
target_compile_options(verge_dev_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
    -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough -Wundef
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
    $<$<BOOL:${VERGE_WERROR}>:-Werror>)

# Sanitizers must reach every translation unit, or their reports are wrong.
if(VERGE_SANITIZE)
    add_compile_options(-fsanitize=${VERGE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${VERGE_SANITIZE})
endif()

if(PROJECT_IS_TOP_LEVEL)
    find_program(VERGE_CCACHE ccache)
    if(VERGE_CCACHE)
        # An object of one build folder serves another (shared takes the tests of release), and
        # precompiled headers are no obstacle.
        set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_NOHASHDIR=1
            CCACHE_SLOPPINESS=pch_defines,time_macros ${VERGE_CCACHE})
        add_compile_options("$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
    endif()
endif()
