package endure

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
)

// options contains the flags of the command and the derived values.
type options struct {
	harm.Options

	duration time.Duration
	rate     float64
	deploy   time.Duration
	bounce   time.Duration
	damage   int
	upkeep   time.Duration
}

const usage = "usage: bench endure [-duration 1h] [-workers 3] [-rate 2] [-deploy 20s] [-bounce 1m] [-damage 1000] …\n" +
	"for details use bench endure -help\n"

const help = `bench endure operates a fleet on its own Redis server, while it replaces one worker after
the other by a worker of the next build, kills the server and restarts it with its
data (appendfsync always), deletes random keys, and repairs the store with fsck at an
interval. It stops workers with SIGTERM, and every third one with SIGKILL; the code
of every second build differs, using workflow.Version.

A run is excused if one of its keys or a key of its child was deleted. All others
must complete with the correct result. At the end it prints the lost runs, how long
runs that are not excused made no progress, and the number of log lines.

usage: bench endure [flags]

  -duration D   how long runs are started and faults are injected (1h)
  -workers N    worker processes (3)
  -rate F       runs started per second, each with a child (2)
  -deploy D     time between two replacements of a worker; 0: none (20s)
  -bounce D     time between two kills of the server; 0: none (1m)
  -damage N     one key in N is deleted at random; 0: none (1000)
  -upkeep D     time between two repairs; 0: none (15s)
  -wait D       time limit for the runs to end after the last fault (3m)
  -seed N       random seed; 0: a new one for each execution (0)
  -dir DIR      directory of the logs (a temporary directory, which is kept)
  -json         print one JSON object instead of the lines below

The last lines are

  runs N completed N lost N excused N (ended all the same N)
  standstill of runs that are not excused: median D, p99 D, longest D
  lines of log per minute: N, of level ERROR N

Exit code: 0 if nothing was lost; 1 otherwise, with an explanation; 2 if the flags
are invalid or the experiment failed; 130 if it was interrupted.
`

// parse parses and validates the flags.
func parse(args []string) (*options, error) {
	o := &options{Options: harm.Options{Workers: 3, Wait: 3 * time.Minute}}
	err := o.Parse(args, func(flags *flag.FlagSet) {
		flags.DurationVar(&o.duration, "duration", time.Hour, "")
		flags.Float64Var(&o.rate, "rate", 2, "")
		flags.DurationVar(&o.deploy, "deploy", 20*time.Second, "")
		flags.DurationVar(&o.bounce, "bounce", time.Minute, "")
		flags.IntVar(&o.damage, "damage", 1000, "")
		flags.DurationVar(&o.upkeep, "upkeep", 15*time.Second, "")
	})
	switch {
	case err != nil:
	case o.duration <= 0 || o.Workers <= 0 || o.rate <= 0 || o.Wait <= 0:
		err = errors.New("-duration, -workers, -rate and -wait must be above zero")
	case o.deploy < 0 || o.bounce < 0 || o.damage < 0 || o.upkeep < 0:
		err = errors.New("-deploy, -bounce, -damage and -upkeep must not be below zero")
	default:
		_, err = harm.ServerBinary()
	}
	return o, err
}

// String returns the arguments that define the experiment.
func (o *options) String() string {
	return fmt.Sprintf("-duration %v -workers %d -rate %v -seed %d", o.duration, o.Workers, o.rate, o.Seed)
}
