package flows_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW5_ATopicWhoseNameIsNoneIsRefusedOnEveryPath(t *testing.T) {
	longest := workflow.NewTopic[string](strings.Repeat("x", store.MaxName))
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		for _, name := range []string{strings.Repeat("x", store.MaxName+1), "\xff", "a\x00b"} {
			topic := workflow.NewTopic[string](name)
			uses := flowtest.Flow[string, int](fmt.Sprint("uses", len(name)))
			stop := w.Work(worker.Config{}, flowtest.Parks, flowtest.As(uses, func(ctx workflow.Context, in string) (int, error) {
				refused := 0
				note := func(what string, err error) {
					if !flowtest.IsInvalid(err, "topic") {
						t.Errorf("%s: got %v", what, err)
					}
					refused++
				}
				_, err := topic.Receive(ctx)
				note("receive", err)
				_, _, err = topic.TryReceive(ctx)
				note("try to receive", err)
				_, err = workflow.Select(ctx, flowtest.Wake.Case(), topic.Case())
				note("select", err)
				note("send from a run", topic.SendFrom(ctx, workflow.Info(ctx).ID, in))
				if err := longest.SendFrom(ctx, workflow.Info(ctx).ID, in); err != nil {
					return 0, err
				}
				_, err = longest.Receive(ctx)
				return refused, err
			}))
			if got := flowtest.Result(w, flowtest.Start(w, uses, "x")); got != 4 {
				t.Errorf("%q: %d uses were refused", name, got)
			}
			run := flowtest.Start(w, flowtest.Parker, "")
			if err := topic.Send(w.Ctx, run, "x"); !flowtest.IsInvalid(err, "topic") {
				t.Errorf("send: got %v", err)
			}
			if _, err := flowtest.Parker.Start(w.Ctx, w.Client, "", workflow.WithMessage(topic, "x")); !flowtest.IsInvalid(err, "topic") {
				t.Errorf("start with a message: got %v", err)
			}
			if err := longest.Send(w.Ctx, run, "x"); err != nil {
				t.Errorf("send to the longest name: %v", err)
			}
			stop.Stop()
		}
	})
}
