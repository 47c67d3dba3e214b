package admin

// News is something new about a topic of a live connection: one of its fields beside Topic is set.
type News struct {
	Topic string `json:"topic"`           // as it was asked for
	Event *Event `json:"event,omitempty"` // of a run
	Lag   *Lag   `json:"lag,omitempty"`   // of a run, whose log has no event after which to go on
	// Page is what a list is now. It comes first, and when it has changed; what it was in between is left out.
	Page *RunPage `json:"page,omitempty"`
	// Problem is why nothing more comes of a run, or why a list could not be asked for: that is asked for again.
	Problem *Problem `json:"problem,omitempty"`
	Ended   bool     `json:"ended,omitempty"` // the run has ended: nothing more comes of it
}
