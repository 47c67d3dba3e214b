package worker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW5_ATopicWhoseNameIsNoneIsRefusedOnEveryPath(t *testing.T) {
	longest := workflow.NewTopic[string](strings.Repeat("x", store.MaxName))
	onEveryStore(t, func(t *testing.T, w *world) {
		for _, name := range []string{strings.Repeat("x", store.MaxName+1), "\xff", "a\x00b"} {
			topic := workflow.NewTopic[string](name)
			uses := flow[string, int](fmt.Sprint("uses", len(name)))
			stop := w.work(worker.Config{}, parks, as(uses, func(ctx workflow.Context, in string) (int, error) {
				refused := 0
				note := func(what string, err error) {
					if !isInvalid(err, "topic") {
						t.Errorf("%s: got %v", what, err)
					}
					refused++
				}
				_, err := topic.Receive(ctx)
				note("receive", err)
				_, _, err = topic.TryReceive(ctx)
				note("try to receive", err)
				_, err = workflow.Select(ctx, wake.Case(), topic.Case())
				note("select", err)
				note("send from a run", topic.SendFrom(ctx, workflow.Info(ctx).ID, in))
				if err := longest.SendFrom(ctx, workflow.Info(ctx).ID, in); err != nil {
					return 0, err
				}
				_, err = longest.Receive(ctx)
				return refused, err
			}))
			if got := result(w, start(w, uses, "x")); got != 4 {
				t.Errorf("%q: %d uses were refused", name, got)
			}
			run := start(w, parker, "")
			if err := topic.Send(w.ctx, run, "x"); !isInvalid(err, "topic") {
				t.Errorf("send: got %v", err)
			}
			if _, err := parker.Start(w.ctx, w.client, "", workflow.WithMessage(topic, "x")); !isInvalid(err, "topic") {
				t.Errorf("start with a message: got %v", err)
			}
			if err := longest.Send(w.ctx, run, "x"); err != nil {
				t.Errorf("send to the longest name: %v", err)
			}
			stop.stop()
		}
	})
}
