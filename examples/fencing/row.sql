-- row.sql - an SQL row that refuses a former leader.
--
-- One more column, and one more condition in every UPDATE of a leader. No lock and no second
-- statement: the database checks and writes in one step. row.sh uses it, with PostgreSQL or SQLite (3.35);
-- MySQL has no RETURNING: ask for ROW_COUNT() instead.

CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    fence BIGINT NOT NULL DEFAULT 0, -- the largest token that has written this row
    balance BIGINT NOT NULL DEFAULT 0
);
INSERT INTO job (id) VALUES (1);
