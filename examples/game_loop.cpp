// The wheel inside a game's own loop: bullets that are checked every millisecond, and a grenade
// that explodes after five seconds.  No thread, no clock: the loop passes the time, here a
// virtual one, so that the program ends at once.

#include <verge/queue/timing_wheel.hpp>

#include <cstdio>
#include <vector>

namespace {

// One tick of the wheel is a millisecond of the game.
constexpr verge::tick frame = 16;   // about 60 frames a second
constexpr verge::tick fuse = 5000;  // a grenade's
constexpr verge::tick last_frame = 6000;
constexpr int wall = 400;  // metres away; a bullet flies one a millisecond

// A thing in the game that wants to be called at some time.  The timer is part of it: arming one
// allocates nothing, and a thing that is destroyed is called no more.
struct entity : verge::wheel_timer {
    enum class type { bullet, grenade } what = type::bullet;
    int metres = 0;  // flown so far
    verge::tick exploded_at = 0;
};

using wheel = verge::timing_wheel<entity>;

// A bullet flies a metre and checks whether it has hit.  A frame is longer than a millisecond:
// arm_next lets it run for each of them, in turn with all that happens in the same frame.
void check_bullet(wheel& timers, entity& bullet) {
    if (++bullet.metres < wall) timers.arm_next(bullet, bullet.deadline() + 1);
}

}  // namespace

int main() {
    wheel timers(0);
    std::vector<entity> bullets(100);
    entity grenade;
    grenade.what = entity::type::grenade;

    timers.arm_after(grenade, fuse);
    for (entity& bullet : bullets)
        timers.arm_after(bullet, 1);

    for (verge::tick now = 0; now <= last_frame; now += frame) {  // the game loop
        timers.advance(now, [&](entity& e) {
            if (e.what == entity::type::bullet) return check_bullet(timers, e);
            e.exploded_at = e.deadline();
            std::printf("frame at %llu ms: the grenade explodes\n",
                        static_cast<unsigned long long>(now));
        });
        // ... read the players' input, move, draw, wait for the next frame.
    }

    bool as_planned = grenade.exploded_at == fuse && timers.empty();
    int checks = 0;
    for (const entity& bullet : bullets) {
        checks += bullet.metres;
        as_planned = as_planned && bullet.metres == wall;
    }
    std::printf("%zu bullets were checked %d times\n", bullets.size(), checks);
    return as_planned ? 0 : 1;
}
