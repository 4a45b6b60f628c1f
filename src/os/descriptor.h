/* src/os/descriptor.h - which number a descriptor has.
 *
 * When a process is killed, Linux releases its descriptors one after the other, the highest number
 * first. Some take milliseconds (an inotify watch waits for all processors). A descriptor whose end
 * others wait for is given a high number, and is released before those. */
#ifndef CV_OS_DESCRIPTOR_H
#define CV_OS_DESCRIPTOR_H

/* Moves a descriptor to a high number, where it closes on exec. Returns it as it is if that cannot
 * be done: everything works, only later. */
int cv__descriptor_raise(int fd);

#endif
