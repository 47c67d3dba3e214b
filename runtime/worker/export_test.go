package worker

// Room returns how many more runs the worker would work on.
func (w *Worker) Room() int { return w.capacity() }
