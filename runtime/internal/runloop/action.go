package runloop

import (
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/store"
)

// Op is the operation of an [Action]. The comments name the fields that are set.
type Op uint8

const (
	Read        Op = iota // read the log and the inbox, or only the inbox, and post Loaded (Inbox, After, Portion)
	Send                  // send the commit until it is answered, and post Answered (Commit)
	Start                 // call the code of a step and post Ended; the attempt then returns its slot (Attempt, Begin)
	StopAttempt           // cancel the code of an attempt that was started (Attempt, Err)
	Reveal                // complete the request of an attempt to open a hook (Opening)
	ReturnSlot            // return a slot of an attempt that was not started
	Release               // give the run back without a commit (Fence)
	Leave                 // end the ownership, and keep the run in memory if N > 0; if it is not kept, post Evict (N, Claimed, End)
	SetAside              // do no work for the run for a while (Err)
	LineUp                // append the run to those that wait for a turn (Most)
	BeginTurn             // post TurnOver after Most, and end the turn some time later (Turn, Most)
	EndTurn               // end the turn (Turn)
	Wake                  // post Due at a time instead of the time before (Due, Looked)
	Decline               // withdraw the creation of the run, if it was not sent
	Observe               // report a run that is in memory to the observers (Seen)
	Report                // report a commit to the observers (Events)
	Log                   // write a log line (Line)
)

// Action is an action that the caller of a State must perform, with the data of its operation.
type Action struct {
	Op      Op
	Inbox   bool
	After   uint64 // number of frames of the log that were read before
	Portion int    // see [store.Load]
	Claimed bool   // whether a later claim of the run waits, so that the run stays owned
	N       int    // number of branches of the run
	Turn    int
	Most    time.Duration
	Due     time.Time // zero cancels
	Looked  time.Time
	Attempt uint64 // ID of an attempt, unique within the State
	Begin   Begin
	Claim   *Claim // claim of the run, for Read, Send and Start
	Commit  *Commit
	Opening *Opening
	Fence   store.Fence
	End     *localstart.End // the end of the run, for callers that wait for it
	Err     error
	Line    Line
	Seen    *observe.Run
	Events  *observe.Commit
}

// Begin describes an attempt to start.
type Begin struct {
	Ref      uint64
	Number   int
	Timeout  time.Duration
	Deadline time.Time  // the earliest deadline of the attempt, of the run and of WithTimeout
	Step     *replay.Op // only its immutable fields may be read
	Run      *replay.Run
}

// Line is a log line. Args are keys and values, or values of type slog.Attr.
type Line struct {
	Level slog.Level
	Text  string
	Args  []any
}

func (s *State) log(level slog.Level, text string, args ...any) {
	s.act(Action{Op: Log, Line: Line{level, text, args}})
}

func (s *State) warn(text string, args ...any) { s.log(slog.LevelWarn, text, args...) }
