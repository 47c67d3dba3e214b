-- Import adds a run that has ended in another store, or replaces the log and the streams of a run
-- that has ended.
-- It mirrors Import of package protocol.
--
-- KEYS  1 metadata  2 metadata of a hidden run  3 log  4 streams of its chain  5 and 6 metadata of
--       the run that follows it, visible and hidden
-- ARGV  1 now  2 when it was created  3 when it ended  4 how long to keep it from now  5 minimum
--       retention  6 retention of a run that does not set its own  7 the run that it continued as,
--       or ''  8 its chain unless it is the first run, or ''  9 its workflow ID as a key, or ''
--       10 its failure group, or ''  11 the data common to the runs of the group  12 how long a
--       group without runs is kept  13 the importer  14 the reason  15 number of frames after the
--       first  16 number of streams  17 number of chunks  18 its last rerun, or ''  19 '1' to replace
--       the log if the run exists, or ''  20 and on: the frames; for each stream its name, the numbers of its first and last chunk, the size of the
--       longest one in bytes, whether it is closed, and how many of its chunks follow; the chunks
--       of all streams; then the run in the format of add_run
--
-- Returns {'ok', overwritten key, …}, {'there'}, {'other'}, {'hidden'}, {'goes on'}, {'no chain'}
-- or {'ends', run}. It fails with LOST if a repair must rewrite the metadata of the run.
--
-- Atomic, because a run is stored as a whole or not at all, however many commands that takes: all
-- commands that could refuse come first. The keys of the partition come last, and are skipped if
-- they were overwritten: the script that reads such a key reports it, and a repair writes it again
-- from the runs.
--
-- Parts: tag intact clock header ready compact sets enlist add kept remembered end lost trail

local frames, streams, chunks = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
local first = 20 + frames + 6 * streams + chunks
local run, route, header = ARGV[first], ARGV[first + 1], ARGV[first + 4]
local created, ended, next_run, chain, wid = ARGV[2], ARGV[3], ARGV[7], ARGV[8], ARGV[9]

-- append_frames adds the frames after the first one to the log. It returns the size of the log.
local function append_frames()
  local bytes = #ARGV[first + 3]
  for i = 1, frames do
    bytes = bytes + #ARGV[19 + i]
    redis.call('XADD', KEYS[3], string.format('%d-0', i + 1), 'f', ARGV[19 + i])
  end
  compact(run, bytes)
  return bytes
end

-- add_streams replaces the given streams of the chain.
local function add_streams()
  local body = 20 + frames + 6 * streams
  for i = 20 + frames, body - 1, 6 do
    local name, from, last, n = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 5])
    local key = tag .. 'C:' .. run .. ':' .. name
    redis.call('UNLINK', key, tag .. 'W:' .. run .. ':' .. name)
    for c = 0, n - 1 do
      redis.call('XADD', key, string.format('%.0f-0', from + c), 'f', ARGV[body + c])
    end
    body = body + n
    redis.call('HSET', KEYS[4], name, string.format('%.0f %.0f %s %s', from, last, ARGV[i + 3], ARGV[i + 4]))
  end
end

local there = redis.call('HGET', KEYS[1], 'H')
if there then
  if not queue_state_of(there) or queue_state_of(there) ~= '6' then
    return {'goes on'}
  end
  if string.sub(there, 26, 41) ~= string.sub(header, 26, 41) then
    return {'other'}
  end
  if ARGV[19] == '' then
    return {'there'}
  end
  if streams > 0 then
    local last = redis.call('HGET', tag .. 'T', run)
    local last_header = last and redis.call('HGET', tag .. 'm:' .. last, 'H')
    if last_header and queue_state_of(last_header) ~= '6' then
      return {'goes on'}
    end
  end
  redis.call('UNLINK', KEYS[3])
  redis.call('XADD', KEYS[3], '1-0', 'f', ARGV[first + 3])
  local bytes = append_frames()
  local flags, recoveries, n = struct.unpack('>BHI4', there, 51)
  redis.call('HSET', KEYS[1], 'H', string.sub(there, 1, 50) .. struct.pack('>BHI4I6', flags, recoveries, n, bytes) .. string.sub(there, 64))
  add_streams()
  return {'there'}
end
if redis.call('EXISTS', KEYS[2]) == 1 then
  return {'hidden'}
end
if redis.call('EXISTS', KEYS[1]) == 1 or lost(run) then
  return lost_error(run)
end
local latest = ''
if chain ~= '' then
  local head = redis.call('HMGET', tag .. 'm:' .. chain, 'H', 'h')
  if not head[1] or head[2] then
    return {'no chain'}
  end
  local last = redis.call('HGET', tag .. 'T', chain)
  local known = last and redis.call('EXISTS', tag .. 'm:' .. last, tag .. 'g:' .. last) == 1
  if next_run == '' then
    if known then
      return {'ends', last}
    end
    latest = run
  elseif not known and redis.call('EXISTS', KEYS[5], KEYS[6]) == 0 then
    latest = next_run -- the following run does not exist before it is imported
  end
end

local now = clock(ARGV[1])
local keep = math.min(ARGV[4] + math.max(0, now - ended), 9223372036854)
local usual = keep == tonumber(ARGV[6])
header = with_flag(header, has_retention, not usual)
add_run(first, created, header, ended, true)
local parent = redis.call('HGET', KEYS[1], 'u')
append_frames()
if not usual then
  redis.call('HSET', KEYS[1], 'j', string.format('%.0f', keep))
end
if next_run ~= '' then
  redis.call('HSET', KEYS[1], 'N', next_run)
end
if ARGV[18] ~= '' then
  redis.call('HSET', KEYS[1], 'R', ARGV[18])
end
redis.call('UNLINK', KEYS[4])
add_streams()

intact('HSETNX', tag .. 'k', route, ARGV[first + 2])
retire(run, header, route, parent, created, ended, math.max(math.max(created, ended) + ARGV[5], ended + keep), false)
if chain ~= '' then
  redis.call('HSET', KEYS[1], 'h', chain)
  intact('HINCRBY', tag .. 'h', chain, '1')
  if latest ~= '' then
    intact('HSET', tag .. 'T', chain, latest)
  end
  local purge = intact('ZSCORE', tag .. 'd', chain)
  if purge then -- later runs of the chain hold back the purge of its first run
    intact('ZREM', tag .. 'd', chain)
    intact('ZADD', tag .. 'G', purge, chain)
  end
end
if wid ~= '' and next_run == '' then
  local last = intact('HGET', tag .. 'v', wid)
  local before = last and intact('HGET', tag .. 'm:' .. last, 'p')
  if not before or tonumber(before) <= tonumber(ended) then
    intact('HSET', tag .. 'v', wid, run)
  end
end
if ARGV[10] ~= '' then
  -- Part: failure_group
  enter_failure_group(ARGV[10], ARGV[11], ARGV[12] - (now - ended), tonumber(ended), ended)
  redis.call('HSET', KEYS[1], 'g', ARGV[10])
  join_failure_group(run, ARGV[10], created)
end
trail(run, ARGV[14], ARGV[13], '', now, redis.call('HGET', KEYS[1], 'H'))
redis.call('PUBLISH', tag .. 'frame:' .. run, '')
return notified({'ok'})
