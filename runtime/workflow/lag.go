package workflow

import "fmt"

// LagError says that a reader of a stream cannot continue where it was: the next chunk
// is not kept any more, or the store has lost it. [Handle.Events] never returns
// one: nothing is taken out of a log before the run is purged.
type LagError struct {
	Run    RunID
	Stream string
	Wanted uint64 // the chunk that was next
	Next   uint64 // the one to read on with: From(Next)
}

// Error names the stream, what is gone and where to read on.
func (e *LagError) Error() string {
	if e.Next < e.Wanted {
		return fmt.Sprintf("stream %s of run %s ends in front of chunk %d, which was there: the store has lost writes; read on with chunk %d",
			e.Stream, e.Run, e.Wanted-1, e.Next)
	}
	return fmt.Sprintf("chunk %d of stream %s of run %s is not kept any more: read on with chunk %d", e.Wanted, e.Stream, e.Run, e.Next)
}
