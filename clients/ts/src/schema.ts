// Made from admin/api/openapi.json by go test ./admin/api -update. Do not edit.

export interface Act {
  reason?: string;
  step?: string;
}

export interface Acted {
  new?: string;
  run: string;
  verb: "cancel" | "pause" | "resume" | "step" | "release" | "retry" | "resume-new" | "restart" | "fork" | "terminate" | "delete";
}

export interface Action {
  reason?: string;
  step?: string;
  verb: string;
}

export interface Answer {
  /** Any JSON, as it is stored. */
  payload?: unknown;
  run: string;
}

export interface Backfill {
  from: string;
  overlap?: string;
  to: string;
}

export interface Because {
  reason?: string;
}

export interface Below {
  exact: boolean;
  statuses: Record<string, number>;
  total: number;
}

export interface BlockedRun {
  queue: string;
  reason?: string;
  run: string;
  workflow: string;
}

export interface Branch {
  actions?: string[];
  attributes?: Record<string, string>;
  below?: Below;
  blocked?: string;
  cancelReason?: string;
  canceling?: boolean;
  chain?: string;
  createdAt: string;
  damaged?: string;
  depth: number;
  due?: string;
  endedAt?: string;
  events: number;
  failedStep?: FailedStep;
  failure?: Failure;
  group?: string;
  id: string;
  /** Any JSON, as it is stored. */
  input?: unknown;
  mismatch?: Mismatch;
  newer?: string;
  next?: string;
  parent?: string;
  pauseReason?: string;
  paused?: boolean;
  pin?: string;
  queue: string;
  recoveries?: number;
  recovery?: Recovery;
  rerunOf?: string;
  /** Any JSON, as it is stored. */
  result?: unknown;
  retriedAs?: string;
  retries?: Retry[];
  root: string;
  startBy?: string;
  startedAt?: string;
  status: string;
  tags?: Record<string, string>;
  unserved?: boolean;
  updatedAt?: string;
  waits?: string[];
  waitsFor?: LimitWait[];
  waitsSince?: string;
  worker?: string;
  workflow: string;
  workflowId?: string;
}

export interface Broken {
  explain: string;
  invariant: number;
  lasting?: boolean;
  run?: string;
  what: string;
}

export interface Bulk {
  action: Action;
  by?: string;
  createdAt: string;
  done: number;
  endedAt?: string;
  failed: number;
  failure?: string;
  failures?: BulkFailure[];
  filter: Filter;
  id: string;
  owner?: string;
  perSecond: number;
  rate: number;
  refused: number;
  remaining: number;
  run: string;
  skipped: number;
  status: "pending" | "running" | "completed" | "stopped" | "failed";
  total: number;
  unserved?: boolean;
}

export interface BulkCount {
  name: string;
  runs: number;
}

export interface BulkFailure {
  detail: string;
  outcome: string;
  run: string;
}

export interface BulkPage {
  bulks: Bulk[];
  cursor?: string;
}

export interface BulkPreview {
  at: string;
  count: number;
  groups?: BulkCount[];
  refusals?: BulkCount[];
  refused: number;
  samples: Run[];
  statuses: BulkCount[];
  token: string;
}

export interface BulkRequest {
  action?: Action;
  all?: boolean;
  filter?: Filter;
}

export interface CatalogGraph {
  nodes?: CatalogNode[];
  tooMany?: number;
}

export interface CatalogNode {
  each?: string;
  id: string;
  if?: boolean;
  mayFail?: boolean;
  maybe?: string[];
  needs?: string[];
}

export interface CatalogPage {
  next?: string;
  workflows: CatalogWorkflow[];
}

export interface CatalogVersion {
  at: string;
  build: string;
  graph?: CatalogGraph;
  /** Any JSON, as it is stored. */
  input?: unknown;
  limits?: string[];
  /** Any JSON, as it is stored. */
  output?: unknown;
  queue: string;
}

export interface CatalogWorkflow {
  versions: CatalogVersion[];
  workflow: string;
}

export interface Checked {
  done: number;
  fixes: Mending[];
  left: number;
  planned: number;
  repair: boolean;
  runs: number;
  total: number;
}

export interface Chunk {
  attempt?: number;
  index: number;
  run?: string;
  step?: string;
  /** Any JSON, as it is stored. */
  value: unknown;
}

export interface ChunkPage {
  chunks: Chunk[];
  ended: boolean;
  first: number;
  last: number;
  name: string;
  next?: number;
  run: string;
}

export interface Counted {
  queue: string;
  runs: number;
  status?: string;
  workflow: string;
}

export interface Counts {
  counts: Counted[];
  exact: boolean;
  total: number;
}

export interface Deploy {
  blocked?: BlockedRun[];
  blockedRuns: number;
  build: string;
  claims: boolean;
  firstSeen?: string;
  lastSeen?: string;
  needs: number;
  percent: number;
  retired?: string;
  started: number;
  to?: string;
  workers: string[];
}

export interface DeployAct {
  reason?: string;
  to?: string;
}

export interface DeployActed {
  build: string;
  to?: string;
  verb: string;
}

export interface Deploys {
  at: string;
  builds: Deploy[];
  partial?: boolean;
  read: number;
}

export interface Depth {
  blocked: number;
  exact: boolean;
  oldestMs: number;
  queue: string;
  ready: number;
  running: number;
  waiting: number;
  workers: number;
}

export interface Drained {
  answer: string;
  build: string;
  claims: boolean;
  needs: number;
  read: number;
  reason?: string;
  runs?: NeedingRun[];
  unsure: number;
  workers: number;
}

export interface Entity {
  attempt?: number;
  began: string;
  changed: string;
  due?: string;
  failure?: Failure;
  id: string;
  key?: string;
  kind: "step" | "wait" | "hook" | "child" | "send" | "ask";
  name?: string;
  open: boolean;
  run?: string;
  seq: number;
  state: string;
}

export interface EntityPage {
  entities: Entity[];
  next?: number;
}

export interface Event {
  attempt?: number;
  attributes?: Record<string, string>;
  build?: string;
  by?: string;
  creates?: boolean;
  due?: string;
  ends?: boolean;
  failure?: Failure;
  key?: string;
  name?: string;
  next?: string;
  /** Any JSON, as it is stored. */
  payload?: unknown;
  reason?: string;
  ref?: number;
  seq: number;
  time: string;
  type: string;
}

export interface EventPage {
  events: Event[];
  next?: number;
}

export interface Exam {
  findings: ExamFinding[];
  supported: boolean;
}

export interface ExamFinding {
  check: string;
  fix?: string;
  found: string;
  node?: string;
  severity: string;
  want?: string;
}

export interface ExportRequest {
  all?: boolean;
  filter?: Filter;
  runs?: string[];
  tree?: boolean;
}

export interface FailedStep {
  attempts: number;
  key: string;
  run: string;
  step: string;
}

export interface Failure {
  causes?: Failure[];
  code?: string;
  /** Any JSON, as it is stored. */
  data?: unknown;
  message: string;
  notUndone?: string[];
  stack?: string;
  type?: string;
  undone?: string[];
}

export interface FailureGroup {
  first: string;
  group: string;
  kind: string;
  last: string;
  message: string;
  open: number;
  runs: number;
  step?: string;
  workflow: string;
}

export interface FailurePage {
  cursor?: string;
  groups: FailureGroup[];
  partial: boolean;
}

export interface Fault {
  pointer: string;
  problem: string;
}

export interface Filter {
  budget?: number;
  children?: boolean;
  cursor?: string;
  failing?: boolean;
  group?: string;
  limit?: number;
  oldest?: boolean;
  parent?: string;
  queue?: string;
  root?: string;
  since?: string;
  statuses?: string[];
  system?: boolean;
  tags?: Record<string, string>;
  until?: string;
  workflow?: string;
  workflowId?: string;
}

export interface Graph {
  build?: string;
  code?: string;
  nodes: GraphNode[];
  path: string;
  paths?: string[];
  run: string;
  states: Record<string, number>;
  total: number;
  why?: string;
}

export interface GraphNode {
  began?: string;
  each?: string;
  ended?: string;
  failed?: number;
  id: string;
  if?: boolean;
  layer: number;
  mayFail?: boolean;
  maybe?: string[];
  needs?: string[];
  open?: number;
  operations?: number;
  seq?: number;
  state: string;
}

export interface Hook {
  answerers?: string[];
  attempt?: number;
  closed?: boolean;
  description?: string;
  due?: string;
  event?: number;
  /** Any JSON, as it is stored. */
  form?: unknown;
  id?: string;
  labels?: Record<string, string>;
  name: string;
  opened?: string;
  request?: boolean;
  respondMs?: number;
  run: string;
  tags?: Record<string, string>;
  title?: string;
  token?: string;
}

export interface HookPage {
  cursor?: string;
  hooks: Hook[];
}

export interface Inbox {
  items: InboxItem[];
  run: string;
  total: number;
}

export interface InboxItem {
  by?: string;
  failure?: Failure;
  id: string;
  key?: string;
  name?: string;
  /** Any JSON, as it is stored. */
  payload?: unknown;
  reason?: string;
  type: string;
}

export interface JournalEntry {
  action: string;
  detail?: string;
  face: string;
  id: string;
  key?: string;
  new?: string;
  outcome: string;
  owner?: string;
  principal: string;
  reason?: string;
  run?: string;
  target?: string;
  time: string;
}

export interface JournalPage {
  cursor?: string;
  entries: JournalEntry[];
  partial: boolean;
}

export interface Lag {
  next: number;
  wanted: number;
}

export interface LimitWait {
  ahead?: string;
  key?: string;
  limit: string;
  paused: boolean;
  since: string;
  step?: string;
  stepKey?: string;
}

export interface LogIn {
  token: string;
}

export interface LoggedIn {
  name: string;
  owner?: string;
  role: string;
}

export interface Mending {
  action?: string;
  broken?: Broken[];
  outcome: string;
  reason?: string;
  run?: string;
  why?: string;
}

export interface Message {
  /** Any JSON, as it is stored. */
  payload: unknown;
  reason?: string;
}

export interface Mismatch {
  asked?: string;
  build?: string;
  diff?: string;
  event: number;
  here?: string;
  position?: string;
  recorded: string;
}

export interface NeedingRun {
  queue: string;
  reason: string;
  run: string;
  status: string;
  unsure?: boolean;
  workflow: string;
}

export interface NewBulk {
  action?: Action;
  all?: boolean;
  expect?: number;
  filter?: Filter;
  maxFailures?: number;
  rate?: number;
  token?: string;
}

export interface NewSchedule {
  catchUpMs?: number;
  /** Any JSON, as it is stored. */
  input?: unknown;
  jitterMs?: number;
  name: string;
  overlap?: string;
  queue?: string;
  reason?: string;
  tags?: Record<string, string>;
  when: string;
  workflow: string;
}

export interface NewView {
  filter: string;
  reason?: string;
}

export interface News {
  ended?: boolean;
  event?: Event;
  lag?: Lag;
  page?: RunPage;
  problem?: Problem;
  topic: string;
}

export interface Pool {
  atOnce: number;
  burst?: number;
  holders?: PoolHolder[];
  inUse: number;
  key?: string;
  name: string;
  next?: string;
  paused: boolean;
  perMs?: number;
  rate?: number;
  refuse?: boolean;
  set: boolean;
  waiting?: number;
  waits: number;
}

export interface PoolAct {
  atOnce?: number;
  burst?: number;
  key?: string;
  perMs?: number;
  rate?: number;
  reason?: string;
  refuse?: boolean;
  waiting?: number;
}

export interface PoolActed {
  key?: string;
  name: string;
  unused?: boolean;
  verb: "set" | "reset" | "pause" | "resume";
}

export interface PoolHolder {
  paused?: boolean;
  run: string;
  status: string;
  step?: string;
  weight: number;
  workflow: string;
}

export interface PoolPage {
  partial?: boolean;
  pools: Pool[];
  total: number;
}

export interface Problem {
  code: string;
  detail: string;
  exit: number;
  faults?: Fault[];
  fix?: string;
  run?: string;
  status: number;
  title: string;
  type: string;
  undone?: string[];
}

export interface Queue {
  blocked: number;
  exact: boolean;
  fix?: string;
  limits?: string[];
  oldest?: string;
  oldestRun?: string;
  parked: number;
  queue: string;
  ready: number;
  running: number;
  step?: string;
  waiting: number;
  workers: number;
  workflow?: string;
}

export interface QueuePage {
  cursor?: string;
  queues: Queue[];
}

export interface Ramp {
  percent: Record<string, number>;
  reason?: string;
}

export interface Ramped {
  percent: Record<string, number>;
}

export interface Rates {
  endedPerSecond: number;
  startedPerSecond: number;
  steps: StepRate[];
  stepsPerSecond: number;
  workers: number;
}

export interface Recovery {
  by?: string;
  from?: string;
  reason: string;
  time: string;
}

export interface Retry {
  attempt: number;
  code?: string;
  failed: string;
  key: string;
  next?: string;
  step: string;
}

export interface Run {
  actions?: string[];
  attributes?: Record<string, string>;
  below?: Below;
  blocked?: string;
  cancelReason?: string;
  canceling?: boolean;
  chain?: string;
  createdAt: string;
  damaged?: string;
  depth?: number;
  due?: string;
  endedAt?: string;
  events: number;
  failedStep?: FailedStep;
  failure?: Failure;
  group?: string;
  id: string;
  /** Any JSON, as it is stored. */
  input?: unknown;
  mismatch?: Mismatch;
  newer?: string;
  next?: string;
  parent?: string;
  pauseReason?: string;
  paused?: boolean;
  pin?: string;
  queue: string;
  recoveries?: number;
  recovery?: Recovery;
  rerunOf?: string;
  /** Any JSON, as it is stored. */
  result?: unknown;
  retriedAs?: string;
  retries?: Retry[];
  root: string;
  startBy?: string;
  startedAt?: string;
  status: "pending" | "held" | "running" | "sleeping" | "waiting" | "paused" | "blocked" | "completed" | "failed" | "cancelled" | "continued";
  tags?: Record<string, string>;
  unserved?: boolean;
  updatedAt?: string;
  waits?: string[];
  waitsFor?: LimitWait[];
  waitsSince?: string;
  worker?: string;
  workflow: string;
  workflowId?: string;
}

export interface RunPage {
  cursor?: string;
  looked: number;
  partial: boolean;
  runs: Run[];
}

export interface Schedule {
  backfills?: Backfill[];
  catchUpMs?: number;
  jitterMs?: number;
  missed: number;
  name: string;
  next?: string;
  note?: string;
  overlap?: string;
  paused?: boolean;
  problem?: string;
  queue: string;
  recent?: ScheduleStart[];
  run: string;
  skipped: number;
  started: number;
  ticks?: string[];
  unserved?: boolean;
  when: string;
  workflow: string;
}

export interface ScheduleAct {
  catchUpMs?: number;
  from?: string;
  jitterMs?: number;
  overlap?: string;
  reason?: string;
  to?: string;
  when?: string;
}

export interface ScheduleActed {
  name: string;
  run?: string;
  verb: string;
}

export interface SchedulePage {
  cursor?: string;
  schedules: Schedule[];
}

export interface ScheduleStart {
  run: string;
  skipped?: string;
  tick: string;
}

export interface Sent {
  run: string;
}

export interface Served {
  queue: string;
  workflow: string;
}

export interface Start {
  attributes?: Record<string, string>;
  delayMs?: number;
  finished?: "allow" | "allowAfterFailure" | "reject";
  hold?: boolean;
  id?: string;
  /** Any JSON, as it is stored. */
  input?: unknown;
  policy?: "cancel" | "fail" | "latest" | "queue" | "use";
  queue?: string;
  reason?: string;
  tags?: Record<string, string>;
  workflow: string;
}

export interface Started {
  created: boolean;
  outcome?: Run;
  run: string;
}

export interface StepRate {
  p50Ms: number;
  p95Ms: number;
  p99Ms: number;
  perSecond: number;
  step?: string;
}

export interface StreamList {
  next?: string;
  streams: StreamState[];
}

export interface StreamState {
  ended: boolean;
  first: number;
  id: string;
  last: number;
  name: string;
}

export interface Tree {
  partial: boolean;
  runs: Branch[];
}

export interface Value {
  name: string;
  run: string;
  set: boolean;
  /** Any JSON, as it is stored. */
  value?: unknown;
}

export interface View {
  at: string;
  by?: string;
  filter: string;
  name: string;
}

export interface ViewActed {
  name: string;
  verb: string;
}

export interface ViewList {
  views: View[];
}

export interface Worker {
  build?: string;
  lease: string;
  live: boolean;
  name: string;
  running: number;
  serves: Served[];
}

export interface WorkerPage {
  cursor?: string;
  workers: Worker[];
}

export interface AwaitRunQuery {
  /** how long to wait for its end, as 30s; at most 60s */
  wait?: string;
}

export interface CountRunsQuery {
  /** how many runs may be examined; 20,000 if it is not given */
  budget?: number;
  /** include runs that another run has started */
  children?: boolean;
  /** of the page before */
  cursor?: string;
  /** that are in any group of failures */
  failing?: boolean;
  /** their group of failures */
  group?: string;
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
  /** the oldest first */
  oldest?: boolean;
  /** the run that has started them */
  parent?: string;
  /** its name */
  queue?: string;
  /** that run and all below it */
  root?: string;
  /** created then or later */
  since?: string;
  /** any of them */
  status?: ("pending" | "held" | "running" | "sleeping" | "waiting" | "paused" | "blocked" | "completed" | "failed" | "cancelled" | "continued")[];
  /** include the runtime's own runs */
  system?: boolean;
  /** as name=value; all of them */
  tag?: string[];
  /** created before */
  until?: string;
  /** its stored name */
  workflow?: string;
  /** of the runs */
  workflowId?: string;
}

export interface FollowRunQuery {
  /** how many are sent at once at most; 100 if it is not given, at most 1,000 */
  batch?: number;
  /** how long one waits for others to be sent with it, as 25ms, which it is if it is not given; at most 1s */
  delay?: string;
  /** events about the entity of this id */
  entity?: string;
  /** number of the first event; 1 if it is not given */
  from?: number;
  /** events about entities with this key, or one below it */
  key?: string;
  /** events about entities of this name, such as a step or a topic */
  name?: string;
  /** any of them */
  type?: ("run_created" | "run_started" | "run_completed" | "run_failed" | "run_cancelled" | "run_continued" | "cancel_requested" | "input_received" | "step_created" | "step_started" | "step_retrying" | "step_completed" | "step_failed" | "step_hook_created" | "step_pending" | "wait_created" | "wait_completed" | "hook_created" | "hook_received" | "hook_disposed" | "hook_conflict" | "hook_missed" | "hook_answered" | "message_received" | "value_recorded" | "message_sent" | "send_completed" | "send_failed" | "child_created" | "child_started" | "child_cancel_requested" | "child_completed" | "child_failed" | "child_cancelled" | "value_set" | "values_kept" | "stream_written" | "stream_closed" | "ask_received" | "ask_accepted" | "ask_answered" | "ask_refused" | "run_paused" | "run_resumed" | "run_released" | "run_stepped" | "version_recorded" | "resource_wait" | "run_delayed")[];
}

export interface FollowStreamQuery {
  /** how many are sent at once at most; 100 if it is not given, at most 1,000 */
  batch?: number;
  /** how long one waits for others to be sent with it, as 25ms, which it is if it is not given; at most 1s */
  delay?: string;
  /** number of the first chunk; the first that is kept if it is not given */
  from?: number;
}

export interface GetGraphQuery {
  /** of the graph, if the run executes several; the first one if it is not given */
  path?: string;
}

export interface ListBulksQuery {
  /** of the page before */
  cursor?: string;
  /** of a page; 20 if it is not given, at most 1,000 */
  limit?: number;
}

export interface ListCatalogQuery {
  /** those whose names come after this one */
  after?: string;
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
  /** its stored name */
  workflow?: string;
}

export interface ListEntitiesQuery {
  /** number of the event with which the first began; 1 if it is not given */
  from?: number;
  /** any of them */
  kind?: ("step" | "wait" | "hook" | "child" | "send" | "ask")[];
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
  /** that have not ended */
  open?: boolean;
}

export interface ListEventsQuery {
  /** number of the first event; 1 if it is not given */
  from?: number;
  /** of events; 1,000 if it is not given */
  limit?: number;
}

export interface ListFailuresQuery {
  /** how many groups may be examined; 20,000 if it is not given */
  budget?: number;
  /** of the page before */
  cursor?: string;
  /** its id */
  group?: string;
  /** any of them */
  kind?: ("failed" | "retrying" | "blocked")[];
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
  /** there are runs in it now */
  open?: boolean;
  /** a run has come into it then or later */
  since?: string;
  /** its stored name */
  step?: string;
  /** its stored name */
  workflow?: string;
}

export interface ListHooksQuery {
  /** of the page before */
  cursor?: string;
  /** how many runs are examined; 20 if it is not given, at most 100 */
  limit?: number;
  /** that has opened them; any if it is not given */
  run?: string;
  /** of the runs, if run is not given, as name=value; all of them */
  tag?: string[];
  /** of the runs, if run is not given */
  workflow?: string;
}

export interface ListPoolsQuery {
  /** with runs that have permits */
  holders?: boolean;
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
  /** of the limit */
  name?: string;
}

export interface ListQueuesQuery {
  /** of the page before */
  cursor?: string;
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
  /** its name */
  queue?: string;
}

export interface ListRunsQuery {
  /** how many runs may be examined; 20,000 if it is not given */
  budget?: number;
  /** include runs that another run has started */
  children?: boolean;
  /** of the page before */
  cursor?: string;
  /** that are in any group of failures */
  failing?: boolean;
  /** their group of failures */
  group?: string;
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
  /** the oldest first */
  oldest?: boolean;
  /** the run that has started them */
  parent?: string;
  /** its name */
  queue?: string;
  /** that run and all below it */
  root?: string;
  /** created then or later */
  since?: string;
  /** any of them */
  status?: ("pending" | "held" | "running" | "sleeping" | "waiting" | "paused" | "blocked" | "completed" | "failed" | "cancelled" | "continued")[];
  /** include the runtime's own runs */
  system?: boolean;
  /** as name=value; all of them */
  tag?: string[];
  /** created before */
  until?: string;
  /** its stored name */
  workflow?: string;
  /** of the runs */
  workflowId?: string;
}

export interface ListSchedulesQuery {
  /** of the page before */
  cursor?: string;
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
}

export interface ListStreamsQuery {
  /** those whose names come after this one */
  after?: string;
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
}

export interface ListWorkersQuery {
  /** of the page before */
  cursor?: string;
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
  /** its name */
  queue?: string;
}

export interface LiveQuery {
  /** how many are sent at once at most; 100 if it is not given, at most 1,000 */
  batch?: number;
  /** how long one waits for others to be sent with it, as 25ms, which it is if it is not given; at most 1s */
  delay?: string;
  /** up to 50, separated by commas: run:ID, and list:FILTER with the escaped query of runs */
  topics?: string;
}

export interface ReadJournalQuery {
  /** any of them */
  action?: string[];
  /** how many entries may be examined; 20,000 if it is not given */
  budget?: number;
  /** of the page before */
  cursor?: string;
  /** of a page; 100 if it is not given, at most 1,000 */
  limit?: number;
  /** any of them: ok, unknown, or the code of a problem */
  outcome?: string[];
  /** any of them */
  principal?: string[];
  /** then or later */
  since?: string;
  /** as it was named, or the run that it is about or has made */
  target?: string;
  /** before */
  until?: string;
}

export interface ReadStreamQuery {
  /** number of the first chunk; the first that is kept if it is not given */
  from?: number;
  /** of chunks; 256 if it is not given, at most 1,000 */
  limit?: number;
}

/** Method and path of each operation, with {names} for what is put in. */
export const routes = {
  /** Take a build out of use, or into use again. Repeating the request has no further effect. */
  actOnDeploy: ["POST", "/v1/deploys/{name}/{action}"],
  /** Configure a limit at run time, or a part of it. Repeating the request has no further effect. */
  actOnPool: ["POST", "/v1/pools/{name}/{action}"],
  /** Control a run. */
  actOnRun: ["POST", "/v1/runs/{id}/{action}"],
  /** Control a schedule. To delete one waits until a worker has ended it, for up to 30 seconds. */
  actOnSchedule: ["POST", "/v1/schedules/{name}/{action}"],
  /** Send a question to a run, and wait for the answer. */
  askRun: ["POST", "/v1/runs/{id}/asks/{name}"],
  /** A run once it has ended, or as it is when the time to wait is over. */
  awaitRun: ["GET", "/v1/runs/{id}/result"],
  /** Deliver a payload to an open hook: JSON of its type, or any request for a hook that takes requests. */
  callHook: ["POST", "/hooks/{token}"],
  /** Damage of the store, and its planned repairs. The request reads everything. */
  checkStore: ["GET", "/v1/fsck"],
  /** How many runs match. */
  countRuns: ["GET", "/v1/runs/count"],
  /** Remove a view. */
  deleteView: ["POST", "/v1/views/{name}/delete"],
  /** Configuration of the servers of the store, and its defects. */
  examineStore: ["GET", "/v1/doctor"],
  /** Runs as lines of JSON, which flowctl import reads: records, logs and streams, as they are stored. An answer without its last line was cut off. */
  exportRuns: ["POST", "/v1/export"],
  /** The events of a run as they are appended, until it has ended. */
  followRun: ["GET", "/v1/runs/{id}/follow"],
  /** The chunks of a stream as they are appended, until its end. */
  followStream: ["GET", "/v1/runs/{id}/streams/{name}/follow"],
  /** The current state of a bulk action. */
  getBulk: ["GET", "/v1/bulk/{id}"],
  /** The amount of work on a queue, for autoscalers of workers. */
  getDepth: ["GET", "/v1/queues/{queue}/depth"],
  /** This document. */
  getDocument: ["GET", "/v1/openapi.json"],
  /** Whether the workers of a build can be removed. The request reads the logs of open runs. */
  getDrained: ["GET", "/v1/deploys/{name}/drained"],
  /** How far a run has come in a graph: its nodes, the state of each, and which needs which as far as that is known. */
  getGraph: ["GET", "/v1/runs/{id}/graph"],
  /** The description of a hook, open or closed. */
  getHook: ["GET", "/v1/hooks/{token}"],
  /** The items that a run has not received yet, the first 100: messages, requests to cancel, results of children. */
  getInbox: ["GET", "/v1/runs/{id}/inbox"],
  /** The throughput of the live workers in the last minute, and the latencies of steps. */
  getRates: ["GET", "/v1/rates"],
  /** A run with its input and outcome, and why it does not continue. */
  getRun: ["GET", "/v1/runs/{id}"],
  /** A schedule with its next ten ticks. */
  getSchedule: ["GET", "/v1/schedules/{name}"],
  /** A run and those below it, up to 1,000: each one is followed by those that it has started. */
  getTree: ["GET", "/v1/runs/{id}/tree"],
  /** The newest value of a name that a run has published. */
  getValue: ["GET", "/v1/runs/{id}/values/{name}"],
  /** A page of bulk actions, the newest first. */
  listBulks: ["GET", "/v1/bulk"],
  /** The workflows that workers have described when they started: queue, and schemas of input and result. */
  listCatalog: ["GET", "/v1/catalog"],
  /** The builds of the workers, the newest first, with the open runs that need each and its blocked runs. */
  listDeploys: ["GET", "/v1/deploys"],
  /** A page of what a run has begun: steps, waits, hooks, children, messages, questions, each as it stands. */
  listEntities: ["GET", "/v1/runs/{id}/entities"],
  /** A page of the log of a run. */
  listEvents: ["GET", "/v1/runs/{id}/events"],
  /** A page of groups of failures, those first into which a run has come last. */
  listFailures: ["GET", "/v1/failures"],
  /** A page of open hooks, of one run or of all that have not ended. Tokens are for operators. */
  listHooks: ["GET", "/v1/hooks"],
  /** The parts of limits, by waiting weight, then by weight in use. */
  listPools: ["GET", "/v1/pools"],
  /** A page of the work on the queues, by queue and workflow. */
  listQueues: ["GET", "/v1/queues"],
  /** A page of runs, the newest first. */
  listRuns: ["GET", "/v1/runs"],
  /** A page of schedules. */
  listSchedules: ["GET", "/v1/schedules"],
  /** A page of the streams that a run writes, by name, each as it stands. */
  listStreams: ["GET", "/v1/runs/{id}/streams"],
  /** The shared views of the store, by name: at most 100. */
  listViews: ["GET", "/v1/views"],
  /** A page of workers, by name. */
  listWorkers: ["GET", "/v1/workers"],
  /** Several topics by one connection: the events of runs as they are appended, and lists of runs when they change. A list is read once a second for all its readers together. */
  live: ["GET", "/v1/live"],
  /** Log a browser in with a token: the answer sets a cookie. Only on servers with logins. */
  logIn: ["POST", "/v1/login"],
  /** Take the cookie of a browser away. The token remains valid. Only on servers with logins. */
  logOut: ["POST", "/v1/logout"],
  /** Preview a bulk action. */
  previewBulk: ["POST", "/v1/bulk/preview"],
  /** Make a schedule, or replace what the one of its name does. Repeating the request has no further effect. */
  putSchedule: ["POST", "/v1/schedules"],
  /** Distribute the new runs of pinned workflows over builds. Repeating the request has no further effect. */
  rampDeploys: ["POST", "/v1/deploys/ramp"],
  /** A page of the requests of operators, the newest entry first. Those with an owner have their own entries. */
  readJournal: ["GET", "/v1/journal"],
  /** A page of a stream that a run writes. */
  readStream: ["GET", "/v1/runs/{id}/streams/{name}"],
  /** Repair the damage of the store from the logs. The request reads everything. */
  repairStore: ["POST", "/v1/repair"],
  /** Deliver a payload to the run that has opened a hook. */
  resumeHook: ["POST", "/v1/hooks/{token}/resume"],
  /** Save a filter of runs under a name, or replace the filter of that name. Repeating the request has no further effect. */
  saveView: ["POST", "/v1/views/{name}"],
  /** Send a message of a topic to a run. */
  sendMessage: ["POST", "/v1/runs/{id}/topics/{name}"],
  /** Perform the action of a preview on many runs. */
  startBulk: ["POST", "/v1/bulk"],
  /** Create a run of a workflow that is known by name only. */
  startRun: ["POST", "/v1/runs"],
  /** Stop a bulk action. */
  stopBulk: ["POST", "/v1/bulk/{id}/stop"],
} as const;
