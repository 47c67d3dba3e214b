package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// code is the code of a workflow.
type code = func(ctx workflow.Context, in string) (string, error)

// A defect is a common mistake in workflow code. found runs a test of a workflow that has the
// mistake. If mended is true, found tests the corrected workflow.
type defect struct {
	found func(t testing.TB, mended bool)
	says  []string // texts that the failure must contain
}

var (
	work = newStep("defects.work", shim.Policy{})
	once = newStep("defects.once", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	note = workflow.NewTopic[string]("note")
)

// crash runs the code under CrashEverywhere. The ledger l records the effects of its steps.
func crash(t testing.TB, c code, prepare func(e *workflowtest.Env, l *ledger)) {
	d := flow("defects.flow")
	var l *ledger
	workflowtest.CrashEverywhere(t, d, "in", func(e *workflowtest.Env) {
		l = &ledger{}
		shim.BindWorkflow(e, d, c)
		prepare(e, l)
	}, workflowtest.State(func(*workflowtest.Env) any { return l.entries }), workflowtest.Pairs(20))
}

// plain binds the step work to a function that returns its argument.
func plain(e *workflowtest.Env, _ *ledger) { work.Bind(e, echo) }

// interleave runs the code under Interleave.
func interleave(t testing.TB, c code, prepare func(e *workflowtest.Env), opts ...workflowtest.Option) {
	d := flow("defects.flow")
	workflowtest.Interleave(t, d, "in", func(e *workflowtest.Env) {
		shim.BindWorkflow(e, d, c)
		work.Bind(e, echo)
		prepare(e)
	}, 60, opts...)
}

// replayed records a run of the code old and replays it with the code today.
func replayed(t testing.TB, old, today code) {
	d := flow("defects.flow")
	file := filepath.Join(t.TempDir(), "run.json")
	env := workflowtest.New(t)
	shim.BindWorkflow(env, d, old)
	work.Bind(env, echo)
	run, err := d.Start(t.Context(), env.Client(), "in")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	env.Record(run.Handle, file)
	workflowtest.Replay(t, func(e *workflowtest.Env) { shim.BindWorkflow(e, d, today) }, file)
}

// send sends a note to the run under test, unless it has ended.
func send(e *workflowtest.Env, v string) func(context.Context) {
	return func(ctx context.Context) {
		if err := note.Send(ctx, e.Run(), v); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
			panic(err)
		}
	}
}

func pick[T any](mended bool, good, bad T) T {
	if mended {
		return good
	}
	return bad
}

func steps(ctx workflow.Context, args ...string) (string, error) {
	var all []string
	for _, a := range args {
		v, err := call(ctx, work, a)
		if err != nil {
			return "", err
		}
		all = append(all, v)
	}
	return strings.Join(all, ","), nil
}

var defects = map[string]defect{
	"side effect outside of a step": {
		says: []string{"does not survive a crash", "What State returned differs", "No step was executed more often", "effects belong into steps"},
		found: func(t testing.TB, mended bool) {
			var l *ledger
			crash(t, func(ctx workflow.Context, in string) (string, error) {
				if !mended {
					l.add("mail to " + in) // an effect outside of a step
				}
				return steps(ctx, in)
			}, func(e *workflowtest.Env, fresh *ledger) {
				l = fresh
				work.Bind(e, func(_ context.Context, arg string) (string, error) { return arg, nil })
			})
		},
	},
	"order of a map": {
		says: []string{"does not survive a crash", "asks for it with other data", "_test.go:", "order of a map"},
		found: func(t testing.TB, mended bool) {
			prices := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8}
			crash(t, func(ctx workflow.Context, _ string) (string, error) {
				keys := slices.Collect(maps.Keys(prices))
				if mended {
					slices.Sort(keys)
				}
				return steps(ctx, keys...)
			}, plain)
		},
	},
	"state shared through a global variable": {
		says: []string{"does not survive a crash", "asks for it with other data"},
		found: func(t testing.TB, mended bool) {
			global := 0
			crash(t, func(ctx workflow.Context, _ string) (string, error) {
				n := &global
				if mended {
					n = new(int)
				}
				*n++
				return steps(ctx, fmt.Sprint("order ", *n), "b")
			}, func(e *workflowtest.Env, l *ledger) {
				global = 0
				plain(e, l)
			})
		},
	},
	"swallowed cancel": {
		says: []string{"seed", "was told to end", "completed as if nothing had happened", "return the error"},
		found: func(t testing.TB, mended bool) {
			interleave(t, func(ctx workflow.Context, in string) (string, error) {
				if err := workflow.Sleep(ctx, time.Hour); err != nil && mended {
					return "", err
				}
				return in, nil
			}, func(*workflowtest.Env) {})
		},
	},
	"effect that is not idempotent": {
		says: []string{"does not survive a crash", "changed how often steps were executed", "step.IdempotencyKey", "nonidempotent"},
		found: func(t testing.TB, mended bool) {
			crash(t, func(ctx workflow.Context, in string) (string, error) { return steps(ctx, in) },
				func(e *workflowtest.Env, l *ledger) {
					booked := map[string]bool{}
					work.Bind(e, func(ctx context.Context, arg string) (string, error) {
						if key := step.IdempotencyKey(ctx); !mended || !booked[key] {
							booked[key] = true
							l.add("booked " + arg)
						}
						return arg, nil
					})
				})
		},
	},
	"effect before a failure": {
		says: []string{"does not survive a crash", "changed how often steps were executed"},
		found: func(t testing.TB, mended bool) {
			crash(t, func(ctx workflow.Context, in string) (string, error) { return steps(ctx, in) },
				func(e *workflowtest.Env, l *ledger) {
					seen := map[string]bool{}
					work.Bind(e, func(ctx context.Context, arg string) (string, error) {
						if key := step.IdempotencyKey(ctx); !mended || !seen[key] {
							seen[key] = true
							l.add("sent " + arg)
						}
						if step.Attempt(ctx) == 1 {
							return "", errors.New("lost the answer")
						}
						return arg, nil
					})
				})
		},
	},
	"message lost between two receives": {
		says: []string{"seed", "never taken", "message of topic note", "TryReceive in a loop"},
		found: func(t testing.TB, mended bool) {
			interleave(t, func(ctx workflow.Context, in string) (string, error) {
				first, err := note.Receive(ctx)
				if err != nil {
					return "", err
				}
				if _, err := steps(ctx, first); err != nil {
					return "", err
				}
				second, err := note.Receive(ctx, workflow.Timeout(time.Hour))
				switch {
				case errors.Is(err, workflow.ErrTimeout):
					second, err = steps(ctx, "nobody") // a message may arrive while the step runs
				}
				if err != nil {
					return "", err
				}
				for more := mended; more; {
					var third string
					if third, more, err = note.TryReceive(ctx); err != nil {
						return "", err
					}
					second += third
				}
				return first + second, nil
			}, func(e *workflowtest.Env) {
				e.At(time.Minute, send(e, "1"))
				e.At(2*time.Minute, send(e, "2"))
			})
		},
	},
	"changed order of steps": { // the code has no version marker for the change
		says: []string{"Replay", "does not fit this code", "defects.work", "(- recorded, + asked for)", "_test.go:", "Restore the old order of operations"},
		found: func(t testing.TB, mended bool) {
			old := func(ctx workflow.Context, _ string) (string, error) { return steps(ctx, "a", "b") }
			replayed(t, old, func(ctx workflow.Context, _ string) (string, error) {
				if !mended {
					return steps(ctx, "b", "a")
				}
				a, err := call(ctx, work, "a") // different code with the same order of steps
				if err != nil {
					return "", err
				}
				b, err := call(ctx, work, "b")
				return a + "," + b, err
			})
		},
	},
	"changed arguments of a step": {
		says: []string{"asks for it with other data", `"in v2"`},
		found: func(t testing.TB, mended bool) {
			ask := func(arg string) code {
				return func(ctx workflow.Context, _ string) (string, error) { return steps(ctx, arg) }
			}
			replayed(t, ask("in v1"), ask(pick(mended, "in v1", "in v2")))
		},
	},
	"clock of the machine": {
		says: []string{"does not survive a crash", "asks for it with other data", "workflow.Now"},
		found: func(t testing.TB, mended bool) {
			crash(t, func(ctx workflow.Context, _ string) (string, error) {
				now := workflow.Now(ctx)
				if !mended {
					now = time.Now()
				}
				return steps(ctx, now.Format(time.RFC3339Nano), "b")
			}, plain)
		},
	},
	"random numbers of the process": {
		says: []string{"does not survive a crash", "asks for it with other data", "Rand"},
		found: func(t testing.TB, mended bool) {
			crash(t, func(ctx workflow.Context, _ string) (string, error) {
				n := workflow.Rand(ctx).Uint64()
				if !mended {
					n = rand.Uint64()
				}
				return steps(ctx, fmt.Sprint(n), "b")
			}, plain)
		},
	},
	"channel in workflow code": {
		says: []string{"blocks outside of the durable operations at", "defects_test.go:", "workflow.Go"},
		found: func(t testing.TB, mended bool) {
			gate := make(chan struct{})
			d := flow("defects.flow")
			env := workflowtest.New(t)
			t.Cleanup(func() { close(gate) }) // unblock the code before the Env checks for leaks
			shim.BindWorkflow(env, d, func(ctx workflow.Context, in string) (string, error) {
				if !mended {
					<-gate
				}
				return in, nil
			})
			_, _ = d.Execute(t.Context(), env.Client(), "in")
		},
	},
	"lock in workflow code": {
		says: []string{"blocks outside of the durable operations at", "defects_test.go:", "workflow.Go"},
		found: func(t testing.TB, mended bool) {
			var lock sync.Mutex
			lock.Lock()
			d := flow("defects.flow")
			env := workflowtest.New(t)
			t.Cleanup(lock.Unlock) // unblock the code before the Env checks for leaks
			shim.BindWorkflow(env, d, func(ctx workflow.Context, in string) (string, error) {
				if !mended {
					lock.Lock() // the innermost frame of the stack is in the standard library
					defer lock.Unlock()
				}
				return in, nil
			})
			_, _ = d.Execute(t.Context(), env.Client(), "in")
		},
	},
	"loser of a race that takes the next message": {
		says: []string{"had lost a First", "took a message of topic note at", "defects_test.go:", "workflow.Select"},
		found: func(t testing.TB, mended bool) {
			d := flow("defects.flow")
			env := workflowtest.New(t)
			shim.BindWorkflow(env, d, func(ctx workflow.Context, _ string) (string, error) {
				scope, end := workflow.WithCancel(ctx)
				receive := func(ctx workflow.Context) (string, error) { return note.Receive(ctx) }
				late := func(ctx workflow.Context) (string, error) { return "late", workflow.Sleep(ctx, time.Minute) }
				if _, err := workflow.First(ctx, workflow.Go(scope, receive), workflow.Go(ctx, late)); err != nil {
					return "", err
				}
				if mended {
					end()
				}
				return note.Receive(ctx)
			})
			env.At(time.Hour, send(env, "here"))
			_, _ = d.Execute(t.Context(), env.Client(), "in")
		},
	},
	"branch that depends on the length of the log": {
		says: []string{"does not survive a crash", "LogLength"},
		found: func(t testing.TB, mended bool) {
			crash(t, func(ctx workflow.Context, in string) (string, error) {
				if _, err := steps(ctx, "a"); err != nil {
					return "", err
				}
				if n := workflow.LogLength(ctx); !mended && n > 5 {
					return "long", nil
				}
				return in, nil
			}, plain)
		},
	},
	"step with one attempt": {
		says: []string{"failed as interrupted", "a crash counts as one", "retries=", "nonidempotent", "AllowInterrupted"},
		found: func(t testing.TB, mended bool) {
			crash(t, func(ctx workflow.Context, in string) (string, error) {
				return call(ctx, pick(mended, work, once), in)
			}, func(e *workflowtest.Env, l *ledger) {
				once.Bind(e, echo)
				plain(e, l)
			})
		},
	},
	"message that never comes": {
		says: []string{"can never come", "waits for a message of topic note at", "defects_test.go:", "Env.At"},
		found: func(t testing.TB, mended bool) {
			d := flow("defects.flow")
			env := workflowtest.New(t)
			shim.BindWorkflow(env, d, func(ctx workflow.Context, _ string) (string, error) { return note.Receive(ctx) })
			if mended {
				env.At(time.Hour, send(env, "here"))
			}
			_, _ = d.Execute(t.Context(), env.Client(), "in")
		},
	},
	"two branches that wait for each other": {
		says: []string{"can never continue", "branch flow/go#1 waits for branch flow/go#2", "branch flow/go#2 waits for branch flow/go#1"},
		found: func(t testing.TB, mended bool) {
			d := flow("defects.flow")
			env := workflowtest.New(t)
			shim.BindWorkflow(env, d, func(ctx workflow.Context, in string) (string, error) {
				var second *workflow.Future[string]
				first := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return second.Get(ctx) })
				second = workflow.Go(ctx, func(ctx workflow.Context) (string, error) {
					if mended {
						return in, nil
					}
					return first.Get(ctx)
				})
				return second.Get(ctx)
			})
			if _, err := d.Execute(t.Context(), env.Client(), "in"); err != nil {
				t.Error(err)
			}
		},
	},
	"branches that wait for each other in one of two orders": {
		says: []string{"does not work with every order", "can never continue", "branch flow/go#3 waits for branch flow/go#3"},
		found: func(t testing.TB, mended bool) {
			d := flow("defects.flow")
			workflowtest.Interleave(t, d, "in", func(env *workflowtest.Env) {
				bindWork(env)
				shim.BindWorkflow(env, d, func(ctx workflow.Context, in string) (string, error) {
					a := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, work, "a") })
					b := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, work, "b") })
					won, err := workflow.Select(ctx, a, b)
					if err != nil || won == a || mended {
						return in, err
					}
					var self *workflow.Future[string]
					self = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return self.Get(ctx) })
					return self.Get(ctx)
				})
			}, 20)
		},
	},
	"loop of timers": {
		says: []string{"horizon", "WithHorizon", "sleep"},
		found: func(t testing.TB, mended bool) {
			d := flow("defects.flow")
			env := workflowtest.New(t)
			shim.BindWorkflow(env, d, func(ctx workflow.Context, in string) (string, error) {
				for n := 0; ; n++ {
					if err := workflow.Sleep(ctx, 30*24*time.Hour); err != nil || mended && n == 12 {
						return in, err
					}
				}
			})
			_, _ = d.Execute(t.Context(), env.Client(), "in")
		},
	},
	"nothing registered": {
		says: []string{"no workflow is registered", "generated Register"},
		found: func(t testing.TB, mended bool) {
			d := flow("defects.flow")
			env := workflowtest.New(t)
			if mended {
				shim.BindWorkflow(env, d, func(_ workflow.Context, in string) (string, error) { return in, nil })
			}
			_, _ = d.Execute(t.Context(), env.Client(), "in")
		},
	},
}

func TestTEST3_EveryDefectIsFoundAndTheMendedCodePasses(t *testing.T) {
	for name, d := range defects {
		t.Run(name, func(t *testing.T) {
			got := observe(t, func(t testing.TB) { d.found(t, false) })
			t.Log(got)
			for _, want := range d.says {
				if !strings.Contains(strings.ToLower(got), strings.ToLower(want)) {
					t.Errorf("the failure does not say %q", want)
				}
			}
			if got := observe(t, func(t testing.TB) { d.found(t, true) }); got != "" {
				t.Errorf("mended, it fails:\n%s", got)
			}
		})
	}
}
