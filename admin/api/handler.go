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

// Prefix is the prefix of all paths of the API.
const Prefix = route.Prefix

// Config configures a Handler. With the zero value, the handler answers only programs on the same
// machine, which have all rights.
type Config struct {
	// Auth authenticates bearer tokens. If Auth, Session and Proxy are nil, authentication is
	// disabled, and requests from other machines and forwarded requests are refused.
	Auth admin.Authenticator
	// Session enables logins of browsers at POST /v1/login and /v1/logout. Proxy configures a
	// trusted proxy that authenticates requests. Both are optional.
	Session *httpauth.Session
	Proxy   *httpauth.Proxy
	// CORS lists the origins whose pages may send requests with bearer tokens; nil means none. It
	// is ignored if authentication is disabled.
	CORS *httpauth.CORS
	// AllowUnauthenticated grants all rights to all requests if Auth, Session and Proxy are nil.
	// Set it only if access is restricted by other means.
	AllowUnauthenticated bool
	// MaxBody is the maximum size of the body of a request in bytes; 0 means
	// workflow.DefaultMaxPayload plus 64 KiB.
	MaxBody int64
	// BodyTime is the time limit for reading the body of a request; 0 means 30 s.
	BodyTime time.Duration
	// Mutations is the maximum number of requests per second with which a principal may change
	// something, and the maximum burst; 0 means 50.
	Mutations int
	// Streams is the maximum number of open requests of a principal that wait for data or answers;
	// 0 means 100.
	Streams int
	// Lists is the maximum number of lists of runs that a principal may watch at a time, over all
	// of its live connections; 0 means 100. Each list is read once per second for all connections
	// with the same view of the list.
	Lists int
	// KeepAlive is the interval in which a stream without events sends a comment; 0 means 15 s.
	KeepAlive time.Duration
	// Recheck is the interval in which the credential of a stream is checked; 0 means 5 s. If the
	// credential has become invalid, the stream ends.
	Recheck time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Handler serves the API.
type Handler struct {
	service *admin.Service
	cfg     Config
	mux     *http.ServeMux
	origins *http.CrossOriginProtection
	who     httpauth.Identifier // nil if authentication is disabled
	shares  *shares
	lists   *lists
}

// New returns a handler for a service.
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
			_ = h.origins.AddTrustedOrigin(origin) // NewCORS has validated the origins
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

// ServeHTTP checks the origin of a request, then its principal, then its path. The first check that
// fails determines the response.
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
		fail(w, admin.NewProblem(admin.CodeForbidden, err.Error(), "send it from a page of the same origin, or from a program"))
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

// known returns a problem for an unknown path or method. Paths are not cleaned, so a path that
// contains .. is unknown.
func (h *Handler) known(w http.ResponseWriter, r *http.Request) error {
	escaped := r.URL.EscapedPath()
	if path.Clean(escaped) == escaped {
		if _, pattern := h.mux.Handler(r); pattern != "" {
			return nil
		}
		if allowed := h.methods(r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			p := admin.NewProblem(admin.CodeInput, r.Method+" is not a method of this path", "use "+strings.Join(allowed, " or "))
			p.Status = http.StatusMethodNotAllowed
			return p
		}
	}
	return admin.NewProblem(admin.CodeNotFound, "there is nothing at this path", "see "+Prefix+"openapi.json")
}

// methods returns the methods that the path of a request supports.
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

// operation returns a handler for a route.
func (h *Handler) operation(r *route.Route, do func(*request) error) http.Handler {
	if do == nil {
		panic("api: route " + r.Name + " has no operation")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		who := principalOf(hr.Context())
		who.Face = admin.FaceAPI
		req := &request{h: h, route: r, w: w, r: hr, service: h.service.As(who), query: r.ReadQuery(hr.URL.RawQuery)}
		err := h.share(req, who) // checked before the role, because refusals are written to the journal and must count
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

// share applies the limits of a principal to a request.
func (h *Handler) share(req *request, who admin.Principal) error {
	if req.route.Method == http.MethodPost {
		if wait := h.shares.mutate(who.Name); wait > 0 {
			req.w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			return admin.NewProblem(admin.CodeBusy, "the limit of changes per second of a principal is reached", "try again after the time of Retry-After")
		}
	}
	if !req.holds() {
		return nil
	}
	if req.release = h.shares.streams.hold(who.Name, 1); req.release == nil {
		req.w.Header().Set("Retry-After", "1")
		return admin.NewProblem(admin.CodeBusy, "the limit of open requests of a principal is reached", "end one of them")
	}
	return nil
}

// fail sends a problem as the response.
func fail(w http.ResponseWriter, err error) {
	p := admin.ProblemOf(err)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if p.Status == http.StatusRequestEntityTooLarge || p.Status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close") // closes the connection, because the server does not read the rest of the body
	}
	answer(w, "application/problem+json", p.Status, encode(p))
}
