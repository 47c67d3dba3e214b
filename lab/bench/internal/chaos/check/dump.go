package check

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/event"
)

// Dump writes all evidence about a run in readable form. It consists of the log frame by frame, the
// interventions, and the records of the steps.
func Dump(w io.Writer, e *Evidence, run event.RunID) error {
	var b strings.Builder
	r := e.Snapshot.Runs[run]
	if r == nil {
		fmt.Fprintf(&b, "run %s: the store does not know it\n", run)
	} else {
		fmt.Fprintf(&b, "run %s of %s, workflow id %q: %s, status %s, %d frames, %d events, epoch %d, %d in its inbox\n",
			run, r.Route.Workflow, r.WorkflowID, r.QueueState, r.Status, r.N, r.Seq, r.Fence.Epoch, len(r.Inbox))
		for i, raw := range r.Frames {
			dumpFrame(&b, i+1, raw)
		}
	}
	if at, ok := e.Ended[run]; ok {
		fmt.Fprintf(&b, "%s  its end was seen\n", clock(at))
	}
	for _, a := range e.Snapshot.Audit {
		if a.Run == run {
			fmt.Fprintf(&b, "%s  audit: %s by %s, owner was %s, epoch %d\n", clock(a.Time), a.Reason, a.By, a.Owner, a.Epoch)
		}
	}
	var executions []record.Execution
	for _, x := range e.Executions {
		if x.Run == run {
			executions = append(executions, x)
		}
	}
	slices.SortFunc(executions, func(a, b record.Execution) int { return a.Began.Compare(b.Began) })
	for _, x := range executions {
		end := "nothing says that it ended"
		if x.Outcome != record.Unknown {
			end = fmt.Sprintf("%s at %s", x.Outcome, clock(x.Ended))
		}
		fmt.Fprintf(&b, "%s  %s executes attempt %d of %s: %s\n", clock(x.Began), x.Worker, x.Attempt, x.Key, end)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func dumpFrame(b *strings.Builder, n int, raw []byte) {
	f, err := event.DecodeFrame(raw)
	if err != nil {
		fmt.Fprintf(b, "frame %d: %v\n", n, err)
		return
	}
	fmt.Fprintf(b, "frame %d: %s epoch %d token %s cid %s\n", n, clock(f.Time), f.Epoch, f.Token, f.CommitID)
	for i := range f.Events {
		e := &f.Events[i]
		fmt.Fprintf(b, "  %d %s %s", e.Seq, clock(e.Time), e.Type)
		for _, field := range []struct {
			name string
			text string
		}{{"name", e.Name}, {"key", e.Key}, {"by", e.By}, {"item", string(e.Item)}, {"reason", e.Reason}, {"payload", string(e.Payload)}} {
			if field.text != "" {
				fmt.Fprintf(b, " %s=%s", field.name, field.text)
			}
		}
		if e.Ref != 0 {
			fmt.Fprintf(b, " of=%d", e.Ref)
		}
		if e.Attempt != 0 {
			fmt.Fprintf(b, " attempt=%d", e.Attempt)
		}
		if e.Failure != nil {
			fmt.Fprintf(b, " failure=%s: %s", e.Failure.Code, e.Failure.Message)
		}
		b.WriteString("\n")
	}
}
