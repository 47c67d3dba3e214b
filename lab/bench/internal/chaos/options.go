package chaos

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
)

// options contains the flags of the command and the derived values.
type options struct {
	harm.Options

	store         string
	runs          int
	seconds       int
	lease         time.Duration
	heartbeat     time.Duration
	every         time.Duration
	restartServer bool
	failovers     int
	limits        bool
	nested        bool
	appendfsync   string
	keep          bool
}

const usage = "usage: bench chaos [-store redis] [-runs 5000] [-workers 4] [-seconds 40] [-seed N] [-restart-server] …\n" +
	"for details use bench chaos -help\n"

const help = `bench chaos injects faults into a fleet of worker processes and checks every guarantee.

It starts runs, sends messages to them and cancels some of them, while their workers
are killed (SIGKILL), suspended for longer than their claims last (SIGSTOP, SIGCONT),
stopped (SIGTERM) and restarted. It then waits without faults until every run has
ended, and compares its requests, the data of the store, and the records that the
steps wrote to a file of their worker:

  - every run ended with the status and result that its input requires
  - every message was received exactly once, in the order of its sender
  - no step was executed after its completion was committed, after the end of its
    run, or without a record of its start, and no attempt was executed twice. (If a
    worker is suspended between the last check of its lease and the first
    instruction of a step, the step starts when the worker resumes. These steps are
    counted separately; more than one in ten stalls, or more steps per stall than
    the worker has processors, is a violation)
  - no log has a gap, a duplicate, or two owners at a time; the data that the store
    keeps beside the logs agrees with them
  - two runs of one workflow id are never active at once
  - with -limits: according to the start and end times that the steps recorded, the
    attempts in progress never exceeded a limit, and at the end no permit is held
    and no run waits for one. An attempt counts until its fence was void or its
    worker was killed: a worker that was suspended for longer than its claims last
    continues the attempt when it resumes, but cannot commit. When a capacity is
    lowered, attempts that hold permits may finish: the lower capacity applies
    from the time at which the store first reported that no more was held

usage: bench chaos [flags]

  -store S           store of the runs (redis):
                       redis            start a redis-server
                       redis-cluster    start a cluster of three servers
                       redis-sentinel   start a master, a replica that every commit
                                        waits for, and a Sentinel
                       sqlite:PATH      a file that does not exist yet
                       redis://…, redis+cluster://…, redis+sentinel://…
                                        a running server, with a separate key prefix
                     memory: is not supported: it does not outlive a process
  -runs N            runs (5000)
  -workers N         worker processes (4)
  -seconds N         how long runs are started and faults are injected (40)
  -seed N            random seed; 0: a new one for each execution (0). It is printed.
                     The same seed injects the same faults in the same order; which
                     operations they hit depends on the timing
  -every D           average time between two faults (500ms)
  -lease D           time after which a silent worker is considered dead (1s)
  -heartbeat D       interval at which workers renew their leases (200ms)
  -restart-server    also kill the servers and restart them with their data
  -failovers N       number of times to kill the master so that the Sentinel promotes
                     the replica; requires -store redis-sentinel (0)
  -limits            let steps use two limits with capacities 3 and 5, separately,
                     together and in either order; a tenth of the runs hold limits
                     from their first claim to their end, and some steps use one of
                     four keys with capacity 2. Each second the capacity of one limit
                     is changed; limits, keys and runs are paused
  -nested=false      with -limits: steps of runs that hold a limit do not wait for
                     another one (true)
  -appendfsync S     appendfsync of the servers with -restart-server: always,
                     everysec or no (always). Servers that are not restarted do not
                     persist data
  -wait D            time limit for the runs to end after the last fault (2m)
  -dir DIR           directory of logs and records (a temporary directory)
  -keep              keep the directory and a list of findings even on success
  -json              print one JSON object instead of the line below

If FLOWGEN_CODEC_KEYS or FLOWGEN_CODEC_KEYS_FILE is set, all clients have a codec with
these keys, and user data in the store that are not sealed are a violation.

It prints a progress line to standard error each second. The last line is

  runs N completed N lost 0 repeated-after-commit 0 broken-logs 0

Exit code: 0 if no guarantee was violated; 1 otherwise, with an explanation of each
violation and the log of each affected run in the directory; 2 if the flags are
invalid or the experiment failed; 130 if it was interrupted.
`

// parse parses and validates the flags.
func parse(args []string) (*options, error) {
	o := &options{Options: harm.Options{Workers: 4, Wait: 2 * time.Minute}}
	err := o.Parse(args, func(flags *flag.FlagSet) {
		flags.StringVar(&o.store, "store", "redis", "")
		flags.IntVar(&o.runs, "runs", 5000, "")
		flags.IntVar(&o.seconds, "seconds", 40, "")
		flags.DurationVar(&o.lease, "lease", time.Second, "")
		flags.DurationVar(&o.heartbeat, "heartbeat", 200*time.Millisecond, "")
		flags.DurationVar(&o.every, "every", 500*time.Millisecond, "")
		flags.BoolVar(&o.restartServer, "restart-server", false, "")
		flags.IntVar(&o.failovers, "failovers", 0, "")
		flags.BoolVar(&o.limits, "limits", false, "")
		flags.BoolVar(&o.nested, "nested", true, "")
		flags.StringVar(&o.appendfsync, "appendfsync", "always", "")
		flags.BoolVar(&o.keep, "keep", false, "")
	})
	if err == nil {
		err = o.check()
	}
	return o, err
}

func (o *options) check() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"runs", int64(o.runs)}, {"workers", int64(o.Workers)}, {"seconds", int64(o.seconds)},
		{"lease", int64(o.lease)}, {"heartbeat", int64(o.heartbeat)}, {"every", int64(o.every)}, {"wait", int64(o.Wait)},
	} {
		if f.value <= 0 {
			return fmt.Errorf("-%s must be above zero", f.name)
		}
	}
	if o.lease < 2*o.heartbeat {
		return errors.New("-lease must be at least twice -heartbeat, otherwise live workers are considered dead")
	}
	if !slices.Contains([]string{"always", "everysec", "no"}, o.appendfsync) {
		return fmt.Errorf("-appendfsync %s: want always, everysec or no", o.appendfsync)
	}
	if o.failovers < 0 || o.failovers > 0 && o.store != harm.Paired {
		return fmt.Errorf("-failovers %d: want a number of at least zero, and -store %s", o.failovers, harm.Paired)
	}
	if o.limits && o.restartServer && o.appendfsync != "always" {
		return errors.New("-limits requires -appendfsync always: operations that are repeated after a data loss of the server may exceed a limit")
	}
	if o.restartServer && !harm.Own(o.store) {
		return fmt.Errorf("-restart-server requires a server that this program started: -store redis or redis-cluster, not %s", o.store)
	}
	if err := harm.Check(o.store); err != nil {
		return fmt.Errorf("-store %s: %w", o.store, err)
	}
	return nil
}

func (o *options) duration() time.Duration { return time.Duration(o.seconds) * time.Second }

// String returns the arguments that define the experiment.
func (o *options) String() string {
	return fmt.Sprintf("-store %s -runs %d -workers %d -seconds %d -seed %d", o.store, o.runs, o.Workers, o.seconds, o.Seed)
}
