package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// TestMain runs the test binary as the program if a test requests that, so that tests can kill a
// real process.
func TestMain(m *testing.M) {
	if os.Getenv("RESEARCH_MAIN") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program executes the program in a process. It reports whether the process was killed.
func program(t *testing.T, args ...string) (out string, killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "RESEARCH_MAIN=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == -1 && ctx.Err() == nil {
		return stdout.String(), true
	}
	if err != nil {
		t.Fatalf("research %v: %v\n%s%s", args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), false
}

const wantReport = "Where is my towel? The towel is about the most useful thing that a traveler can have [encyclopedia]. " +
	"Towels were sold out on Thursday [newspaper]. I have lost my towel [diary]. Well observed. (encyclopedia, newspaper, diary)"

var completed = regexp.MustCompile(`(?m)^ *\d+ (plan|fetch|summarise|review|write): `)

func checkReport(t *testing.T, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) < 2 || lines[len(lines)-2] != wantReport {
		t.Errorf("the report is not\n%s\nbut:\n%s", wantReport, out)
	}
	if !strings.HasSuffix(lines[len(lines)-1], ", 0 for being too many at a time") {
		t.Errorf("the limit did not hold: %s", lines[len(lines)-1])
	}
	if n := len(completed.FindAllString(out, -1)); n != 9 {
		t.Errorf("%d steps completed, want plan, 3 fetch, 3 summarise, review and write:\n%s", n, out)
	}
}

func TestResearch_AnswersOnEveryStore(t *testing.T) {
	for name, url := range map[string]string{
		"memory": "memory:", "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "r.db"), "redis": redistest.Start(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := program(t, "-store", url)
			checkReport(t, out)
			if !strings.Contains(out, "the library refused 2 requests") {
				t.Errorf("the library has not refused as it should:\n%s", out)
			}
		})
	}
}

func TestResearch_IsWrittenWithoutAReviewIfNobodyIsStrict(t *testing.T) {
	out, _ := program(t, "-store", "memory:", "-strict=false")
	if strings.Contains(out, "Well observed") || !strings.Contains(out, "(encyclopedia, newspaper, diary)") {
		t.Errorf("got\n%s", out)
	}
}

// The test proves that the program prints the same report after a kill at any event and a restart.
// In make test, it samples the events.
func TestDAG4_ResearchKilledAfterEachEventEndsWithTheSameReport(t *testing.T) {
	stride := depth.Stride(6)
	var killed, survived atomic.Int32
	var all sync.WaitGroup
	slots := make(chan struct{}, 6) // Several processes may run at a time, because they sleep most of the time.
	for n := 1; survived.Load() == 0; n += stride {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			t.Run(fmt.Sprintf("event %d", n), func(t *testing.T) {
				if killAndRestart(t, n, "sqlite:"+filepath.Join(t.TempDir(), "r.db")) {
					killed.Add(1)
				} else {
					survived.Add(1)
				}
			})
		})
	}
	all.Wait()
	t.Logf("killed after %d events", killed.Load())
	if int(killed.Load()) < 40/stride {
		t.Errorf("the process was killed %d times: there are more events", killed.Load())
	}
}

// killAndRestart runs the program, which is killed when it has written n events, and then restarts
// it. It returns false if the program writes fewer than n events and is therefore not killed.
func killAndRestart(t *testing.T, n int, url string) bool {
	out, killed := program(t, "-store", url, "-crash-after", fmt.Sprint(n))
	if killed {
		out, _ = program(t, "-store", url)
	}
	checkReport(t, out)
	return killed
}

func TestDAG4_ResearchKilledOnRedisEndsWithTheSameReport(t *testing.T) {
	url := redistest.Start(t).URL()
	var all sync.WaitGroup
	defer all.Wait()
	events := []int{20}
	if depth.Full() {
		events = []int{1, 9, 20, 30, 41}
	}
	for _, n := range events {
		all.Go(func() {
			t.Run(fmt.Sprintf("event %d", n), func(t *testing.T) {
				if !killAndRestart(t, n, fmt.Sprintf("%s?prefix=r%d", url, n)) {
					t.Errorf("the process was not killed after %d events", n)
				}
			})
		})
	}
}

// inProcess is an http.RoundTripper that calls a handler without a network.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	answer := httptest.NewRecorder()
	p.ServeHTTP(answer, r)
	return answer.Result(), nil
}

func setup(env *workflowtest.Env) {
	Register(env, &client{"http://library", &http.Client{Transport: inProcess{newLibrary()}}})
}

var question = ResearchInput{Question: "Where is my towel?", Strict: true}

func TestResearch_SurvivesEveryCrashAndWorksInAnyOrder(t *testing.T) {
	workflowtest.CrashEverywhere(t, Research, question, setup, workflowtest.Pairs(20))
	workflowtest.Interleave(t, Research, question, setup, 30)
}

func TestResearch_SurvivesCrashesOnSQLiteAndRedis(t *testing.T) {
	redis := redistest.Start(t).URL()
	for name, url := range map[string]func(t testing.TB) string{
		"sqlite": func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "flows.db") },
		"redis":  func(testing.TB) string { return redis + "?prefix=kit" + time.Now().Format("150405.000000") },
	} {
		t.Run(name, func(t *testing.T) {
			workflowtest.CrashEverywhere(t, Research, question, setup, workflowtest.Sample(3), workflowtest.Pairs(1),
				workflowtest.WithStore(func(t testing.TB) store.Store {
					st, err := store.Open(t.Context(), url(t))
					if err != nil {
						t.Fatal(err)
					}
					return st
				}))
		})
	}
}
