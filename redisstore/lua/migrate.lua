-- Migrate gives keys of format 2 the names that they have now, and puts runs into the sets of their routes.
--
-- KEYS  1 any key of the partition, by its present name
-- ARGV  1 letters of the keys that the partition has once: no older release may write to it from now on; or ''
--       2 and on: names of keys of format 2, behind the tag that it had
--
-- Returns {'ok'}, or {'taken', key} if a key would replace another one: then nothing more is done.
--
-- Atomic, because all of a run gets its new names at once: a process of the older release that still owned it
-- then finds no run. Nor can it make any: it finds a text where it counts and lists. What it wrote before that was
-- about a run that is moved afterwards, and where that belongs its metadata says. All keys are built: they are
-- found by their names. Done again it finds nothing to do.
--
-- Parts: tag intact header sets

local before, marker = string.match(tag, '^[^}]+}') .. ':', 'flowgen: migrated'

-- move gives a key its present name, and reports false if that is taken.
local function move(name)
  if redis.call('EXISTS', before .. name) == 0 then
    return true
  end
  if redis.call('EXISTS', tag .. name) == 1 then
    return false
  end
  redis.call('RENAME', before .. name, tag .. name)
  return true
end

for letter in string.gmatch(ARGV[1], '.') do
  local key = before .. letter
  local seen = redis.call('TYPE', key).ok == 'string' and redis.call('GET', key)
  if seen ~= marker then
    if letter ~= 'p' and letter ~= 'f' and not move(letter) then
      return {'taken', tag .. letter}
    end
    redis.call('UNLINK', key)
    redis.call('SET', key, marker)
  end
end

-- move_run moves all that a run has.
local function move_run(run)
  for letter in string.gmatch('lingxjOB', '.') do
    if not move(letter .. ':' .. run) then
      return tag .. letter .. ':' .. run
    end
  end
  if redis.call('EXISTS', before .. 'm:' .. run) == 0 then
    return nil
  end
  if not move('m:' .. run) then
    return tag .. 'm:' .. run
  end
  local m = intact('HMGET', tag .. 'm:' .. run, 'H', 'c', 'u', 'a') or {}
  local queue_state = queue_state_of(m[1])
  if queue_state and m[4] then
    redis.call('ZADD', queue_state == '6' and done_runs(m[2], m[3], m[1]) or open_runs(m[2], m[3]), m[4], run)
  end
  return nil
end

for i = 2, #ARGV do
  local run = string.match(ARGV[i], '^[mlingxjOB]:(.+)$')
  local taken
  if run then
    taken = move_run(run)
  elseif not move(ARGV[i]) then
    taken = tag .. ARGV[i]
  end
  if taken then
    return {'taken', taken}
  end
end
return {'ok'}
