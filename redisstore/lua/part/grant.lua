-- grant gives a run to a session under a new fence and returns what the session
-- needs to know of it. The caller takes the run out of its former place. m holds
-- the fields w, e, v, n, q, l and c of the run.
local function grant(run, session, token, m)
  local meta, mail = tag .. 'm:' .. run, redis.call('EXISTS', tag .. 'i:' .. run)
  redis.call('HSET', meta, 'p', 2, 'o', session, 't', token, 'e', m[2] + 1)
  redis.call('HDEL', meta, 'k', 'z')
  redis.call('SADD', tag .. 'o:' .. session, run)
  if mail == 1 then
    redis.call('HSETNX', tag .. 'a:' .. session, run, 0)
  end
  return {run, m[1] or '', m[2] + 1, tonumber(m[3] or 0), tonumber(m[4]), tonumber(m[5]), m[6], m[7], mail}
end

-- granted returns what grant has returned for a run that the session owns
-- already: the answer to the first try of a claim was lost.
local function granted(run, m)
  return {run, m[1] or '', tonumber(m[2]), tonumber(m[3] or 0), tonumber(m[4]), tonumber(m[5]), m[6], m[7],
    redis.call('EXISTS', tag .. 'i:' .. run)}
end
