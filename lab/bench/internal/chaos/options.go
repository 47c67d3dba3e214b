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
	"bench chaos -help says more\n"

const help = `bench chaos harms a fleet of worker processes and checks that every promise was kept.

It starts runs, sends messages to them and cancels some, while their workers are
killed (SIGKILL), suspended for longer than their claims last (SIGSTOP, SIGCONT),
stopped (SIGTERM) and started again. Then it leaves the fleet alone until every run
has ended, and compares what was asked for, what the store holds, and what the
steps have written down themselves, each in a file of its worker:

  - every run has ended, as it must, with the result that its input demands
  - every message was received once, and in the order of its sender
  - no step was executed after its completion was committed, none after the end
    of its run, none without a record of its start, and no attempt twice. (When a
    worker is suspended between its last look at its lease and the first
    instruction of a step, nobody can keep the step from beginning when it wakes.
    Such ones are counted apart; more than one in ten stalls are violations)
  - no log has a hole, a duplicate, or two owners at a time; what the store keeps
    beside the logs says what they say
  - two runs of one workflow id are never active at once
  - with -limits: as the steps themselves say when they began and ended, what was
    under way never used more of a limit than it had at that time, and in the end
    nothing is held and nothing waits. An attempt counts until its fence was void,
    or its worker was killed: a worker that was suspended for longer than its claims
    last goes on with it when it wakes, but can commit nothing. When a capacity is
    lowered what holds permits may finish: the lower number is judged by from the
    moment when the store said for the first time that no more was held

usage: bench chaos [flags]

  -store S           where the runs are kept (redis):
                       redis            a redis-server that it starts itself
                       redis-cluster    a cluster of three, likewise
                       redis-sentinel   a master, a replica that every commit
                                        waits for, and a Sentinel, likewise
                       sqlite:PATH      a file that does not exist yet
                       redis://…, redis+cluster://…, redis+sentinel://…
                                        one that is there, under a prefix of its own
                     memory: is refused: it does not outlive a process
  -runs N            runs (5000)
  -workers N         worker processes (4)
  -seconds N         for how long runs are started and workers harmed (40)
  -seed N            what chance depends on; 0: another one each time (0). It is
                     printed. The same seed harms in the same order; the machine
                     decides what that meets
  -every D           time between two harms, on average (500ms)
  -lease D           after how long a silent worker is taken for dead (1s)
  -heartbeat D       how often workers report (200ms)
  -restart-server    kill the servers, too, and start them again with their data
  -failovers N       kill the master so often, and let the Sentinel promote the
                     replica: -store redis-sentinel (0)
  -limits            the steps use two limits, of which 3 and 5 may be under way,
                     alone, together and in either order; a tenth of the runs hold
                     limits from their first claim to their end, and some steps use
                     one of four keys, of which 2 may be under way. Each second the
                     capacity of one is changed; limits, keys and runs are paused
  -nested=false      with -limits: steps of runs that hold a limit wait for no
                     other one (true)
  -appendfsync S     of the servers with -restart-server: always, everysec or no
                     (always). Servers that are not restarted keep nothing
  -wait D            how long the runs may take to end once nobody is harmed (2m)
  -dir DIR           where logs and records go (a temporary directory)
  -keep              keep them, and a list of what was found, also if all is well
  -json              print one JSON object instead of the line below

While it works it prints a line each second to standard error. The last line is

  runs N completed N lost 0 repeated-after-commit 0 broken-logs 0

Exit code: 0 if all of the above holds; 1 if not, with an explanation of each
violation, and the log of each run concerned in the directory; 2 if the flags are
wrong or the experiment could not be made; 130 if it was interrupted.
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
		return errors.New("-lease must be at least twice -heartbeat, or workers that are well are taken for dead")
	}
	if !slices.Contains([]string{"always", "everysec", "no"}, o.appendfsync) {
		return fmt.Errorf("-appendfsync %s is none of always, everysec, no", o.appendfsync)
	}
	if o.failovers < 0 || o.failovers > 0 && o.store != harm.Paired {
		return fmt.Errorf("-failovers %d needs -store %s, and is not below zero", o.failovers, harm.Paired)
	}
	if o.limits && o.restartServer && o.appendfsync != "always" {
		return errors.New("-limits needs -appendfsync always: while what a server has lost is done again it may be more than a limit allows")
	}
	if o.restartServer && !harm.Own(o.store) {
		return fmt.Errorf("-restart-server needs a server that this program has started: -store redis or redis-cluster, not %s", o.store)
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
