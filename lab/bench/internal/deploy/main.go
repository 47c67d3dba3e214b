package deploy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// Exit codes of the command.
const (
	exitSound  = 0
	exitBroken = 1
	exitUsage  = 2
)

// Main executes the deployments and prints the outcomes of the runs as a Markdown table.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("deploy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	runs := flags.Int("runs", 500, "how many runs each deploy meets")
	step := flags.Duration("step", 2*time.Second, "how long a step takes")
	pace := flags.Duration("pace", 3*time.Second, "how long the deploy waits between its steps")
	only := flags.String("only", "", "play only the deploys that this regular expression matches, for example redis/rolling")
	kills := flags.Bool("kill", false, "also play each deploy with workers that are killed")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitSound
	case err != nil:
		return exitUsage
	}
	wanted, err := regexp.Compile(*only)
	self, err2 := os.Executable()
	dir, err3 := os.MkdirTemp("", "deploy-")
	if err := errors.Join(err, err2, err3); err != nil {
		fmt.Fprintf(stderr, "bench deploy: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "bench deploy: logs are in %s\n", dir)
	fmt.Fprint(stdout, tableHead)
	sound := true
	for n, c := range cells(*kills) {
		if !wanted.MatchString(c.name()) {
			continue
		}
		c.runs, c.step, c.pace, c.still = *runs, *step, *pace, 8*time.Second
		got, err := c.play(ctx, filepath.Join(dir, fmt.Sprint(n)), self)
		if err != nil {
			fmt.Fprintf(stderr, "bench deploy: %s: %v\n", c.name(), err)
			return exitBroken
		}
		fmt.Fprintln(stdout, c.row(&got))
		sound = sound && got.failed == 0 && got.completed == c.runs
	}
	if !sound {
		return exitBroken
	}
	_ = os.RemoveAll(dir) // the logs remain if it fails
	return exitSound
}
