package workflow

import "fmt"

// LagError reports that a reader of a stream cannot continue at its position: the next chunk is not
// kept any more, or the store has lost it. [Handle.Events] never returns one, because events stay
// in a log until the run is purged.
type LagError struct {
	Run    RunID
	Stream string
	Wanted uint64 // the next chunk of the reader
	Next   uint64 // the chunk at which to continue: From(Next)
}

// Error returns a text with the stream, the missing chunk and where to continue.
func (e *LagError) Error() string {
	if e.Next < e.Wanted {
		return fmt.Sprintf("stream %s of run %s ends in front of chunk %d, which was there: the store has lost writes; read on with chunk %d",
			e.Stream, e.Run, e.Wanted-1, e.Next)
	}
	return fmt.Sprintf("chunk %d of stream %s of run %s is not kept any more: read on with chunk %d", e.Wanted, e.Stream, e.Run, e.Next)
}
