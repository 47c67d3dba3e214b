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
	"bench endure -help says more\n"

const help = `bench endure keeps a fleet going on a Redis server of its own, while one worker after
the other is replaced by one of the next build, the server is killed and started
again with its data (appendfsync always), keys are deleted at random, and fsck
repairs the store at an interval. Workers are stopped with SIGTERM, each third one
with SIGKILL; the code of each second build differs, behind workflow.Version.

A run is excused if a key of its own, or of its child, was deleted. All others must
complete with the right result. In the end it prints what was lost, for how long a
run that is not excused stood still, and how many lines were logged.

usage: bench endure [flags]

  -duration D   for how long runs are started and harm is done (1h)
  -workers N    worker processes (3)
  -rate F       runs started per second, each with a child (2)
  -deploy D     time between two replacements of a worker; 0: none (20s)
  -bounce D     time between two kills of the server; 0: none (1m)
  -damage N     one key in N is deleted at random; 0: none (1000)
  -upkeep D     time between two repairs; 0: none (15s)
  -wait D       how long the runs may take to end once the harm is over (3m)
  -seed N       what chance depends on; 0: another one each time (0)
  -dir DIR      where logs go (a temporary directory, which is kept)
  -json         print one JSON object instead of the lines below

The last lines are

  runs N completed N lost N excused N (ended all the same N)
  standstill of runs that are not excused: median D, p99 D, longest D
  lines of log per minute: N, of level ERROR N

Exit code: 0 if nothing was lost; 1 if something was, with an explanation; 2 if the
flags are wrong or the experiment could not be made; 130 if it was interrupted.
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
