// Package systemd reports the health of workers to systemd, for services of Type=notify with
// WatchdogSec. It speaks the protocol of sd_notify(3) itself: datagrams to the socket that the
// variable NOTIFY_SOCKET names.
package systemd

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/worker"
)

const (
	ready    = "READY=1"
	watchdog = "WATCHDOG=1"
	stopping = "STOPPING=1"
)

// Notify reports the state of the workers until stop is called:
//   - READY=1, once, when all workers are ready for the first time: the first sessions are open.
//   - WATCHDOG=1, at half of the interval of WatchdogSec, while all workers are live. A worker that
//     waits for its store is live; see [worker.Health.NotLive]. So systemd restarts the process if a
//     loop of a worker is stuck or if the process does not execute, and not if the store is down.
//   - STOPPING=1, once, when a worker begins to stop, or by stop.
//
// Call stop after the workers have ended: until then the watchdog is served. If the process was not
// started by systemd, or its service does not have Type=notify, Notify does nothing. It returns an
// error if the socket cannot be used, or if the variables that systemd sets are invalid.
func Notify(workers ...*worker.Worker) (stop func(), err error) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return func() {}, nil
	}
	timeout, err := watchdogTimeout()
	if err != nil {
		return nil, err
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("systemd: NOTIFY_SOCKET: %w", err)
	}
	n := &notifier{conn: conn, workers: workers, timeout: timeout, sent: map[string]bool{}, end: make(chan struct{}), done: make(chan struct{})}
	go n.run()
	var once sync.Once
	return func() {
		once.Do(func() {
			close(n.end)
			<-n.done
		})
	}, nil
}

// watchdogTimeout returns WatchdogSec, or 0 if the service has no watchdog.
func watchdogTimeout() (time.Duration, error) {
	text, pid := os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	if text == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0, nil
	}
	microseconds, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("systemd: WATCHDOG_USEC=%q: %w", text, err)
	}
	return time.Duration(microseconds) * time.Microsecond, nil
}

// notifier reports the state of workers.
type notifier struct {
	conn    *net.UnixConn
	workers []*worker.Worker
	timeout time.Duration // of the watchdog; 0 if there is none
	sent    map[string]bool
	pinged  time.Time
	end     chan struct{}
	done    chan struct{}
}

// lookEvery is the interval at which the notifier examines the workers, unless the watchdog needs a
// shorter one.
const lookEvery = 100 * time.Millisecond

func (n *notifier) run() {
	defer close(n.done)
	defer n.conn.Close()
	every := lookEvery
	if n.timeout > 0 {
		every = max(min(every, n.timeout/4), time.Millisecond)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		n.look(time.Now())
		select {
		case <-n.end:
			n.once(stopping)
			return
		case <-tick.C:
		}
	}
}

// look sends what the present state of the workers requires.
func (n *notifier) look(now time.Time) {
	live, all, ends := true, true, false
	for _, w := range n.workers {
		h := w.Health()
		live, all, ends = live && len(h.NotLive()) == 0, all && len(h.NotReady()) == 0, ends || h.Stopping
	}
	if all {
		n.once(ready)
	}
	if ends {
		n.once(stopping)
	}
	if n.timeout > 0 && live && now.Sub(n.pinged) >= n.timeout/2 && n.send(watchdog) {
		n.pinged = now
	}
}

// once sends a state unless it was sent before.
func (n *notifier) once(state string) {
	if !n.sent[state] {
		n.sent[state] = n.send(state)
	}
}

// send reports whether a state was sent. The next look repeats it otherwise.
func (n *notifier) send(state string) bool {
	_ = n.conn.SetWriteDeadline(time.Now().Add(time.Second)) // never fails for an open connection
	_, err := n.conn.Write([]byte(state))
	return err == nil
}
