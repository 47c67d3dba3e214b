package event

import (
	"fmt"
	"strings"
)

// PinMark separates the queue of a pinned run from its build in the queue of its route. Names of
// queues must not contain it.
const PinMark = "@build:"

// CheckQueue returns an error if the name of a queue contains PinMark.
func CheckQueue(name string) error {
	if strings.Contains(name, PinMark) {
		return fmt.Errorf("queue %q contains %q, which separates a queue from a build: use another name", name, PinMark)
	}
	return nil
}

// PinnedQueue returns the queue of the route of a run on the given queue that is pinned to a build.
// If the build is empty, the run is not pinned, and its route has the queue itself.
func PinnedQueue(queue, build string) string {
	if build == "" {
		return queue
	}
	return queue + PinMark + build
}

// SplitQueue returns the queue and the build from which PinnedQueue has made the queue of a route.
func SplitQueue(routed string) (queue, build string) {
	if at := strings.LastIndex(routed, PinMark); at >= 0 {
		return routed[:at], routed[at+len(PinMark):]
	}
	return routed, ""
}

// OnQueue reports whether a run with these options belongs to a route with the given queue. It
// ignores the build: a release that knows no builds has routed some pinned runs to the queue itself.
func (s *Spec) OnQueue(routed string) bool {
	queue, _ := SplitQueue(routed)
	return queue == s.Queue
}

// RouteQueue returns the queue of the run's route.
func (s *Spec) RouteQueue() string { return PinnedQueue(s.Queue, s.Pin) }
