package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/cmd/flowctl/cli"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// followed is one line of the output of flowctl follow -o jsonl.
type followed struct {
	Run, Type string
	Seq       uint64
}

// followAll starts flowctl follow. The function line reads the next line. The function code returns
// the exit code after the context has ended.
func (s *shop) followAll(ctx context.Context, args ...string) (line func() followed, code func() int) {
	s.t.Helper()
	r, w := io.Pipe()
	said, says := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, cli.Config{Args: append(args, "-o", "jsonl"), Stdin: strings.NewReader(""), Stdout: w, Stderr: says})
		_ = w.Close()
		_ = says.Close()
	}()
	if first, err := bufio.NewReader(said).ReadString('\n'); !strings.HasPrefix(first, "following ") {
		s.t.Fatalf("it says %q, %v", first, err)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	lines := bufio.NewScanner(r)
	return func() (got followed) {
			s.t.Helper()
			if !lines.Scan() {
				s.t.Fatalf("there is no other line: %v", lines.Err())
			}
			if err := json.Unmarshal(lines.Bytes(), &got); err != nil || got.Run == "" {
				s.t.Fatalf("%s: %v", lines.Text(), err)
			}
			return got
		}, func() int {
			for lines.Scan() { // Skip the lines of runs that are in progress.
			}
			return <-ended
		}
}

// The test proves that flowctl follow with a filter prints each new event once and in order.
// Existing runs are followed from the ends of their logs, and new runs from their first event. This
// holds even if more runs exist than can be followed at a time, and if some of them end between two
// searches.
func TestOPS1_FollowOfAFilterPrintsWhatIsNewOfEachRun(t *testing.T) {
	for _, remote := range []bool{false, true} {
		t.Run(fmt.Sprint("remote ", remote), func(t *testing.T) {
			s := open(t)
			where := []string{"--store", s.url}
			if remote {
				where = []string{"--server", s.serve("127.0.0.1:0").url}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			line, code := s.followAll(ctx, append(where, "follow", "--tag", "region=eu", "--most", "3")...)
			const runs = 20
			s.work(func(ctx context.Context, c *workflow.Client) {
				if err := c.Run(workflow.RunID(s.runs["wait"])).Cancel(ctx, "enough"); err != nil {
					t.Fatal(err)
				}
				if _, err := orders.Start(ctx, c, "good", workflow.WithID("another"), workflow.WithTags(map[string]string{"region": "us"})); err != nil {
					t.Fatal(err)
				}
				for i := range runs {
					if _, err := orders.Start(ctx, c, "good", workflow.WithID(fmt.Sprint("new-", i)), workflow.WithTags(map[string]string{"region": "eu"})); err != nil {
						t.Fatal(err)
					}
				}
				last, ended := map[string]uint64{}, 0
				for ended < runs+1 {
					got := line()
					switch n, known := last[got.Run]; {
					case !known && got.Run == s.runs["wait"] && got.Seq > 1 && got.Type != "run_created":
					case got.Seq != n+1 || got.Run == s.runs["good"] || got.Run == s.runs["held"]:
						t.Fatalf("%+v follows event %d", got, n)
					}
					if last[got.Run] = got.Seq; got.Type == "run_completed" || got.Type == "run_cancelled" {
						ended++
					}
				}
				if len(last) != runs+1 {
					t.Errorf("events came of %d runs, want %d", len(last), runs+1)
				}
			})
			cancel()
			if got := code(); got != 130 {
				t.Errorf("exit code %d once it is interrupted, want 130", got)
			}
		})
	}
}

func TestOPS1_FollowSaysWhatItDoesNotTake(t *testing.T) {
	s := open(t)
	s.wants(2, nil, []string{"or --all"}, "follow")
	s.wants(2, nil, []string{"name a run, or give a filter"}, "follow", "id:order-good", "--workflow", "x")
	s.wants(2, nil, []string{"--from applies only to the events of one run"}, "follow", "--all", "--from", "7")
	s.wants(2, nil, []string{"give 1 to 90"}, "follow", "--all", "--most", "91")
	s.wants(2, nil, []string{"there is no type of event"}, "follow", "--all", "--type", "nothing")
	s.wants(2, nil, []string{"unknown flag"}, "follow", "--status", "failed")
}
