package endure

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/fleet"
)

// options contains the flags of the command.
type options struct {
	duration time.Duration
	workers  int
	rate     float64
	deploy   time.Duration
	bounce   time.Duration
	damage   int
	upkeep   time.Duration
	wait     time.Duration
	seed     uint64
	dir      string
	json     bool
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

// parse parses the flags.
func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("endure", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.DurationVar(&o.duration, "duration", time.Hour, "")
	flags.IntVar(&o.workers, "workers", 3, "")
	flags.Float64Var(&o.rate, "rate", 2, "")
	flags.DurationVar(&o.deploy, "deploy", 20*time.Second, "")
	flags.DurationVar(&o.bounce, "bounce", time.Minute, "")
	flags.IntVar(&o.damage, "damage", 1000, "")
	flags.DurationVar(&o.upkeep, "upkeep", 15*time.Second, "")
	flags.DurationVar(&o.wait, "wait", 3*time.Minute, "")
	flags.Uint64Var(&o.seed, "seed", 0, "")
	flags.StringVar(&o.dir, "dir", "", "")
	flags.BoolVar(&o.json, "json", false, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	if o.seed == 0 {
		o.seed = rand.Uint64() >> 1
	}
	if o.duration <= 0 || o.workers <= 0 || o.rate <= 0 || o.wait <= 0 {
		return o, errors.New("-duration, -workers, -rate and -wait must be above zero")
	}
	if o.deploy < 0 || o.bounce < 0 || o.damage < 0 || o.upkeep < 0 {
		return o, errors.New("-deploy, -bounce, -damage and -upkeep must not be below zero")
	}
	_, err := fleet.ServerBinary()
	return o, err
}
