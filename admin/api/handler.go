package api

import (
	"cmp"
	"context"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/admin/internal/body"
	"github.com/flowgen/flowgen/admin/internal/route"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Prefix begins the paths of the API.
const Prefix = route.Prefix

// Config configures a Handler. The zero value answers to programs of the same machine, which may do everything.
type Config struct {
	// Auth says whose a bearer token is. If nothing says who asks, requests from other machines, and forwarded ones,
	// are refused.
	Auth admin.Authenticator
	// Session are the logins of browsers, at POST /v1/login and /v1/logout, and Proxy is a trusted one. Each of them, as
	// Auth, says who asks; nil: there is none.
	Session *httpauth.Session
	Proxy   *httpauth.Proxy
	// CORS says of which origins pages may ask by bearer tokens; nil: of none. Where nobody says who asks it is not looked at.
	CORS *httpauth.CORS
	// AllowUnauthenticated answers to everybody who reaches the handler, if Auth, Session and Proxy are nil. Set it only where something
	// else keeps strangers away: they may do everything.
	AllowUnauthenticated bool
	// MaxBody bounds the body of a request, in bytes; 0: workflow.DefaultMaxPayload and 64 KiB.
	MaxBody int64
	// BodyTime is how long the body of a request may take; 0: 30 s.
	BodyTime time.Duration
	// Mutations is how many requests that change something a principal may make in a second, and at once; 0: 50.
	Mutations int
	// Streams is how many requests of a principal may be open that wait for something; 0: 100.
	Streams int
	// Lists is how many lists of runs a principal may watch at a time, by all its live connections together; 0: 100. Each
	// is asked for once a second, for all who watch the same.
	Lists int
	// KeepAlive is how often a stream without events says that it is alive; 0: 15 s.
	KeepAlive time.Duration
	// Recheck is after which time a stream looks again whether the credential of its request holds, and ends if not; 0: 5 s.
	Recheck time.Duration
	// Now says what time it is; nil: time.Now.
	Now func() time.Time
}

// Handler serves the API.
type Handler struct {
	service *admin.Service
	cfg     Config
	mux     *http.ServeMux
	origins *http.CrossOriginProtection
	who     httpauth.Identifier // nil: nobody has to say it
	shares  *shares
	lists   *lists
}

// New returns the handler of a service.
func New(s *admin.Service, cfg Config) *Handler {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, workflow.DefaultMaxPayload+64<<10)
	cfg.BodyTime = cmp.Or(cfg.BodyTime, 30*time.Second)
	cfg.KeepAlive = cmp.Or(cfg.KeepAlive, 15*time.Second)
	cfg.Recheck = cmp.Or(cfg.Recheck, 5*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	h := &Handler{
		service: s, cfg: cfg, mux: http.NewServeMux(), origins: http.NewCrossOriginProtection(),
		shares: newShares(cmp.Or(cfg.Mutations, 50), cmp.Or(cfg.Streams, 100), cmp.Or(cfg.Lists, 100), cfg.Now), lists: newLists(func(ctx context.Context, p admin.Principal, f admin.Filter) (admin.RunPage, error) {
			return s.As(p).Runs(ctx, f)
		}),
	}
	h.who = identifier(&cfg)
	if h.who != nil && cfg.CORS != nil {
		for _, origin := range cfg.CORS.Origins() {
			_ = h.origins.AddTrustedOrigin(origin) // it was checked when the CORS was made
		}
	}
	for _, r := range route.All {
		h.mux.Handle(r.Pattern(), h.operation(r, operations[r]))
	}
	h.mux.HandleFunc("GET "+Prefix+"openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "application/json", http.StatusOK, OpenAPI())
	})
	return h
}

// ServeHTTP judges a request: from where it comes, who sends it, what it asks for. The first that does not
// hold is the answer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	body.Within(w, r, h.cfg.BodyTime)
	if err := h.near(r); err != nil {
		fail(w, err)
		return
	}
	if h.who != nil && h.cfg.CORS != nil && h.cfg.CORS.Answer(w, r) {
		return
	}
	err := h.origins.Check(r)
	if err == nil {
		err = h.foreign(r)
	}
	if err != nil {
		fail(w, admin.NewProblem(admin.CodeForbidden, err.Error(), "ask from a page of the same origin, or from a program"))
		return
	}
	if h.logs(w, r) {
		return
	}
	who, err := h.authenticate(r)
	if err != nil {
		fail(w, err)
		return
	}
	if err := h.known(w, r); err != nil {
		fail(w, err)
		return
	}
	h.mux.ServeHTTP(w, r.WithContext(withPrincipal(r.Context(), who)))
}

// known returns a problem for a path, or a method of it, that is none of the API. A path is taken as it
// is: one that names a folder above it is none.
func (h *Handler) known(w http.ResponseWriter, r *http.Request) error {
	escaped := r.URL.EscapedPath()
	if path.Clean(escaped) == escaped {
		if _, pattern := h.mux.Handler(r); pattern != "" {
			return nil
		}
		if allowed := h.methods(r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			p := admin.NewProblem(admin.CodeInput, r.Method+" is no method of this path", "use "+strings.Join(allowed, " or "))
			p.Status = http.StatusMethodNotAllowed
			return p
		}
	}
	return admin.NewProblem(admin.CodeNotFound, "there is nothing at this path", "see "+Prefix+"openapi.json")
}

// methods returns those that the path of a request has.
func (h *Handler) methods(r *http.Request) []string {
	var all []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := *r
		other.Method = method
		if _, pattern := h.mux.Handler(&other); pattern != "" {
			all = append(all, method)
		}
	}
	return all
}

// operation serves a route.
func (h *Handler) operation(r *route.Route, do func(*request) error) http.Handler {
	if do == nil {
		panic("api: route " + r.Name + " has no operation")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		who := principalOf(hr.Context())
		who.Face = admin.FaceAPI
		req := &request{h: h, route: r, w: w, r: hr, service: h.service.As(who), query: r.ReadQuery(hr.URL.RawQuery)}
		err := h.share(req, who) // before the role: what is refused counts, for it is written into the journal
		defer req.end()
		if err == nil {
			if err = who.Need(r.Role, "the operation "+r.Name); err != nil && r.Method == http.MethodPost {
				action, target := r.Asked(hr.PathValue)
				req.service.Refused(hr.Context(), action, target, err)
			}
		}
		if err == nil {
			err = req.query.Err
		}
		if err == nil {
			err = do(req)
		}
		if err != nil {
			fail(w, err)
		}
	})
}

// share lets a principal have no more than its share.
func (h *Handler) share(req *request, who admin.Principal) error {
	if req.route.Method == http.MethodPost {
		if wait := h.shares.mutate(who.Name); wait > 0 {
			req.w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			return admin.NewProblem(admin.CodeBusy, "more changes are asked for in a second than one principal may make", "try again after the time of Retry-After")
		}
	}
	if !req.holds() {
		return nil
	}
	if req.release = h.shares.streams.hold(who.Name, 1); req.release == nil {
		req.w.Header().Set("Retry-After", "1")
		return admin.NewProblem(admin.CodeBusy, "more requests are open than one principal may have", "end one of them")
	}
	return nil
}

// fail answers with a problem.
func fail(w http.ResponseWriter, err error) {
	p := admin.ProblemOf(err)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if p.Status == http.StatusRequestEntityTooLarge || p.Status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close") // what is left of the body is not read
	}
	answer(w, "application/problem+json", p.Status, encode(p))
}
