#!/bin/sh
# Prints a folder in memory in which programs can be executed and which has room for the
# stores of tests: /dev/shm, or nothing.
file=/dev/shm/thole-$$
trap 'rm -f $file' EXIT
printf '#!/bin/sh\n' 2>/dev/null >$file && chmod +x $file && $file 2>/dev/null &&
	[ "$(df -Pk /dev/shm | awk 'END { print $4 }')" -gt 4000000 ] && echo /dev/shm
exit 0
