package orders

import (
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

func TestTimeline_PrintsNothingThatATerminalInterprets(t *testing.T) {
	var out strings.Builder
	line := newTimeline(&out)
	line.print(event.Event{Seq: 3, Ref: 3, Type: event.StepCreated, Name: "a.\x1b[2Jpay", Time: time.Now()})
	line.print(event.Event{Seq: 4, Ref: 3, Type: event.StepFailed, Time: time.Now(), Failure: &event.Failure{Message: "no\r\n::error::\x1b[31m\u202eüö"}})
	printed := out.String()
	if strings.Count(printed, "\n") != 1 || strings.ContainsAny(printed, "\r\x1b\u202e") {
		t.Errorf("printed %q", printed)
	}
	if !strings.Contains(printed, `no\r\n::error::\x1b[31m\u202eüö`) {
		t.Errorf("printed %q", printed)
	}
}
