// support/in_child.hpp -- runs a function in a forked child.
//
//     EXPECT_EQ(in_child([] { return works() ? 0 : 1; }), 0);

#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace verge {

// What it returns, or -1 if the child dies or hangs.
template <class F>
int in_child(F&& f) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(40);  // a hang ends as a death
        ::_exit(f());
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace verge
