/* stamp NAME [FIFO]: say on standard output when it ran, by the monotonic clock, in nanoseconds.
   With a FIFO: say "NAME-ready" first, wait for one byte, then say it, as late as can be, and end. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void say(const char *name, const char *what)
{
	struct timespec now;
	char line[128];

	clock_gettime(CLOCK_MONOTONIC, &now);
	int n = snprintf(line, sizeof line, "%s%s %lld\n", name, what,
	                 now.tv_sec * 1000000000LL + now.tv_nsec);
	if (write(1, line, n) != n)
		_exit(1);
}

int main(int argc, char **argv)
{
	if (argc == 3) {
		char byte;
		/* Without waiting: bench has it open, or is dead, and then read ends at once. */
		int gate = open(argv[2], O_RDONLY | O_NONBLOCK);

		if (gate < 0 || fcntl(gate, F_SETFL, 0) < 0)
			_exit(2);
		say(argv[1], "-ready");
		if (read(gate, &byte, 1) != 1)
			_exit(3);
	}
	say(argc > 1 ? argv[1] : "", "");
	_exit(0);
}
