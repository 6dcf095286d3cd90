// Links the library and calls a part of it that has a body in src/.
#include <verge/base/clock.hpp>
#include <verge/base/parker.hpp>

int main() {
    verge::parker parker;
    parker.unpark();
    return parker.park(verge::never) ? 0 : 1;
}
